import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Producers of Apache Kafka, step by step. A line is the number of a producer and a command for it; the answer is a line
 * with the number and "ok" or the name of the exception. Each producer has a thread, so one that waits holds up no other.
 */
public final class Producers {
    private final Map<String, ExecutorService> threads = new HashMap<>();
    private final Map<String, KafkaProducer<String, String>> producers = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        Producers all = new Producers();
        var commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split(" ");
            all.threads.computeIfAbsent(words[0], name -> Executors.newSingleThreadExecutor())
                .submit(() -> all.say(words[0], all.answer(words)));
        }
        System.exit(0);
    }

    private synchronized void say(String number, String answer) {
        System.out.println(number + " " + answer);
        System.out.flush();
    }

    private synchronized KafkaProducer<String, String> producer(String[] words) {
        if (words[1].equals("new")) {
            Properties settings = new Properties();
            for (int at = 2; at < words.length; at++) {
                int equals = words[at].indexOf('=');
                settings.put(words[at].substring(0, equals), words[at].substring(equals + 1));
            }
            producers.put(words[0], new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer()));
        }
        return producers.get(words[0]);
    }

    private String answer(String[] words) {
        try {
            var producer = producer(words);
            switch (words[1]) {
                case "new" -> { }
                case "init" -> producer.initTransactions();
                case "begin" -> producer.beginTransaction();
                case "send" -> producer.send(new ProducerRecord<>(words[2], Integer.valueOf(words[3]), null, words[4]));
                case "flush" -> producer.flush();
                case "offset" -> producer.sendOffsetsToTransaction(
                    Map.of(new TopicPartition(words[3], Integer.parseInt(words[4])),
                           new OffsetAndMetadata(Long.parseLong(words[5]))),
                    new ConsumerGroupMetadata(words[2]));
                case "commit" -> producer.commitTransaction();
                case "abort" -> producer.abortTransaction();
                case "close" -> producer.close(Duration.ZERO);
                default -> throw new IllegalArgumentException(words[1]);
            }
            return "ok";
        } catch (Exception error) {
            return error.getClass().getSimpleName() + " " + String.valueOf(error.getMessage()).replace('\n', ' ');
        }
    }
}
