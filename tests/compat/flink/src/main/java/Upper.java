import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.source.KafkaSource;
import org.apache.flink.connector.kafka.source.enumerator.initializer.OffsetsInitializer;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/** From one topic into another in transactions, one for each checkpoint: BROKERS FOLDER-OF-CHECKPOINTS. */
public final class Upper {
    public static void main(String[] arguments) throws Exception {
        String brokers = arguments[0];
        var settings = new Configuration();
        settings.setString("rest.address", "127.0.0.1");
        settings.setString("rest.bind-address", "127.0.0.1");
        settings.setString("rest.bind-port", "0");
        settings.setString("execution.checkpointing.dir", "file://" + arguments[1]);
        settings.setString("execution.checkpointing.interval", "1s");
        settings.setString("restart-strategy.type", "fixed-delay");
        settings.setString("restart-strategy.fixed-delay.attempts", "100");
        settings.setString("restart-strategy.fixed-delay.delay", "1s");
        var environment = StreamExecutionEnvironment.createLocalEnvironment(1, settings);

        var source = KafkaSource.<String>builder()
            .setBootstrapServers(brokers)
            .setTopics("in")
            .setGroupId("upper")
            .setStartingOffsets(OffsetsInitializer.earliest())
            .setValueOnlyDeserializer(new SimpleStringSchema())
            .build();
        var sink = KafkaSink.<String>builder()
            .setBootstrapServers(brokers)
            .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .setTransactionalIdPrefix("upper")
            .setProperty("transaction.timeout.ms", "60000")
            .setRecordSerializer(KafkaRecordSerializationSchema.builder()
                .setTopic("out").setValueSerializationSchema(new SimpleStringSchema()).build())
            .build();
        environment.fromSource(source, WatermarkStrategy.noWatermarks(), "in").map(String::toUpperCase).sinkTo(sink);
        environment.execute("upper");
    }
}
