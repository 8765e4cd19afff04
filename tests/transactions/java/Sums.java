import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/**
 * A Kafka Streams application: for each key the sum of all its numbers so far, written to another topic at every step.
 * Arguments: input topic, output topic, and settings, key=value.
 */
public final class Sums {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        for (int at = 2; at < arguments.length; at++) {
            int equals = arguments[at].indexOf('=');
            settings.put(arguments[at].substring(0, equals), arguments[at].substring(equals + 1));
        }
        settings.put("default.key.serde", Serdes.StringSerde.class);
        settings.put("default.value.serde", Serdes.LongSerde.class);
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(arguments[0], Consumed.with(Serdes.String(), Serdes.String()))
            .mapValues(value -> Long.valueOf(value))
            .groupByKey(Grouped.with(Serdes.String(), Serdes.Long()))
            .reduce(Long::sum, Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("sums"))
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .toStream()
            .mapValues((key, sum) -> key + "=" + sum)
            .to(arguments[1], Produced.with(Serdes.String(), Serdes.String()));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.start();
        Thread.currentThread().join();
    }
}
