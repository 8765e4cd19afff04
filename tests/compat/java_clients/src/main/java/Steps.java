import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The steps of tests/compat/guest.py with Apache Kafka's own client. */
public final class Steps {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static JsonNode options;
    private static String topic;

    public static void main(String[] arguments) throws Exception {
        options = JSON.readTree(arguments[1]);
        topic = options.get("topic").asText();
        switch (arguments[0]) {
            case "produce" -> produce();
            case "consume" -> consume();
            case "member" -> member();
            case "times" -> times();
            case "admin" -> admin();
            case "steady" -> steady();
            case "transactions" -> transactions();
            case "copy" -> copy();
            default -> throw new IllegalArgumentException(arguments[0]);
        }
    }

    private static String option(String name) {
        return options.path(name).asText("");
    }

    private static synchronized void say(Map<String, ?> line) {
        try {
            System.out.println(JSON.writeValueAsString(line));
        } catch (java.io.IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
    }

    private static Properties properties(Map<String, Object> more) {
        var made = new Properties();
        made.put("bootstrap.servers", option("bootstrap"));
        if (!option("user").isEmpty()) {
            made.put("security.protocol", "SASL_SSL");
            made.put("sasl.mechanism", "SCRAM-SHA-512");
            made.put("sasl.jaas.config", String.format(
                "org.apache.kafka.common.security.scram.ScramLoginModule required username=\"%s\" password=\"%s\";",
                option("user"), option("password")));
            made.put("ssl.truststore.type", "PEM");
            made.put("ssl.truststore.location", option("ca"));
        }
        made.putAll(more);
        return made;
    }

    private static KafkaProducer<String, String> producer(Map<String, Object> more) {
        return new KafkaProducer<>(properties(more), new StringSerializer(), new StringSerializer());
    }

    private static KafkaConsumer<String, String> consumer(Map<String, Object> more) {
        var settings = new HashMap<String, Object>(more);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        if (!option("protocol").isEmpty()) {
            settings.put("group.protocol", option("protocol"));
        }
        return new KafkaConsumer<>(properties(settings), new StringDeserializer(), new StringDeserializer());
    }

    private static void produce() throws Exception {
        try (var producer = producer(Map.of("compression.type", option("codec")))) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int number = 0; number < 100; number++) {
                var record = new ProducerRecord<>(topic, "key-" + number, ("value-" + number + " ").repeat(20));
                record.headers().add("number", Integer.toString(number).getBytes());
                sent.add(producer.send(record));
            }
            sent.add(producer.send(new ProducerRecord<>(topic, "key-0", null)));
            for (var future : sent) {
                future.get();
            }
        }
    }

    private static void consume() {
        var level = option("isolation").isEmpty() ? "read_uncommitted" : option("isolation");
        try (var consumer = consumer(Map.of("isolation.level", level))) {
            var partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            for (int count = 0; count < options.get("count").asInt();) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
                    var headers = new HashMap<String, String>();
                    record.headers().forEach(header -> headers.put(header.key(), new String(header.value())));
                    var line = new HashMap<String, Object>(Map.of("headers", headers));
                    line.put("key", record.key());
                    line.put("value", record.value());
                    say(line);
                    count++;
                }
            }
        }
    }

    private static void member() throws Exception {
        var consumer = consumer(Map.of("group.id", option("group")));
        var reading = Thread.currentThread();
        new Thread(() -> {
            try {
                System.in.transferTo(java.io.OutputStream.nullOutputStream());
                consumer.wakeup();
                reading.join();
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        }).start();
        var held = new TreeSet<Integer>();
        consumer.subscribe(List.of(topic), new ConsumerRebalanceListener() {
            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
                partitions.forEach(partition -> held.add(partition.partition()));
                say(Map.of("partitions", held));
            }

            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
                partitions.forEach(partition -> held.remove(partition.partition()));
                say(Map.of("partitions", held));
            }
        });
        try {
            while (true) {
                var records = consumer.poll(Duration.ofMillis(500));
                records.forEach(record -> say(Map.of("value", record.value())));
                if (!records.isEmpty()) {
                    consumer.commitAsync();
                }
            }
        } catch (WakeupException end) {
            consumer.commitSync();
            consumer.close();
        }
    }

    private static void times() {
        try (var consumer = consumer(Map.of())) {
            var partition = new TopicPartition(topic, 0);
            var offsets = consumer.offsetsForTimes(Map.of(partition, options.get("timestamp").asLong()));
            say(Map.of("offset", offsets.get(partition).offset()));
        }
    }

    private static void admin() throws Exception {
        try (var admin = Admin.create(properties(Map.of()))) {
            admin.createTopics(List.of(new NewTopic(topic, 3, (short) 1))).all().get();
            var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
            var change = new AlterConfigOp(new ConfigEntry("retention.ms", "3600000"), AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get();
            int partitions = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
            var retention = admin.describeConfigs(List.of(resource)).all().get().get(resource).get("retention.ms").value();
            boolean listed = admin.listTopics().names().get().contains(topic);
            admin.deleteTopics(List.of(topic)).all().get();
            boolean deleted = !admin.listTopics().names().get().contains(topic);
            say(Map.of("partitions", partitions, "retention", retention, "listed", listed, "deleted", deleted));
        }
    }

    private static void steady() throws Exception {
        try (var producer = producer(Map.of())) {
            for (int number = 0; number < options.get("count").asInt(); number++) {
                producer.send(new ProducerRecord<>(topic, Integer.toString(number))).get();
                say(Map.of("acked", number));
                Thread.sleep(3);
            }
        }
    }

    private static void transactions() {
        try (var producer = producer(Map.of("transactional.id", "of-" + topic))) {
            producer.initTransactions();
            for (String name : List.of("committed", "aborted")) {
                producer.beginTransaction();
                for (int number = 0; number < 10; number++) {
                    producer.send(new ProducerRecord<>(topic, name + "-" + number));
                }
                if (name.equals("committed")) {
                    producer.commitTransaction();
                } else {
                    producer.flush();
                    producer.abortTransaction();
                }
            }
        }
    }

    private static void copy() {
        try (var producer = producer(Map.of("transactional.id", "copies-" + topic));
                var consumer = consumer(Map.of("group.id", option("group"), "isolation.level", "read_committed"))) {
            producer.initTransactions();
            consumer.subscribe(List.of(topic));
            for (int count = 0; count < options.get("count").asInt();) {
                var records = consumer.poll(Duration.ofMillis(500));
                if (records.isEmpty()) {
                    continue;
                }
                producer.beginTransaction();
                var offsets = new HashMap<TopicPartition, OffsetAndMetadata>();
                for (var record : records) {
                    producer.send(new ProducerRecord<>(option("target"), record.value()));
                    var partition = new TopicPartition(record.topic(), record.partition());
                    offsets.put(partition, new OffsetAndMetadata(record.offset() + 1));
                }
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                producer.commitTransaction();
                count += records.count();
            }
        }
    }
}
