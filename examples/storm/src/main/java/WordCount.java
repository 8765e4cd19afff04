import java.io.OutputStream;
import java.util.Map;
import java.util.Properties;
import org.apache.storm.Config;
import org.apache.storm.LocalCluster;
import org.apache.storm.kafka.bolt.KafkaBolt;
import org.apache.storm.kafka.bolt.mapper.FieldNameBasedTupleToKafkaMapper;
import org.apache.storm.kafka.bolt.selector.DefaultTopicSelector;
import org.apache.storm.kafka.spout.FirstPollOffsetStrategy;
import org.apache.storm.kafka.spout.KafkaSpout;
import org.apache.storm.kafka.spout.KafkaSpoutConfig;
import org.apache.storm.task.ShellBolt;
import org.apache.storm.topology.BasicOutputCollector;
import org.apache.storm.topology.IRichBolt;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseBasicBolt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/** Sentences from one topic, how often each word was seen into another: Kafka spout, split, count (in Python), Kafka bolt. */
public final class WordCount {
    /** A sentence into its words. */
    public static final class Split extends BaseBasicBolt {
        @Override
        public void execute(Tuple sentence, BasicOutputCollector collector) {
            for (String word : sentence.getStringByField("value").split(" ")) {
                collector.emit(new Values(word));
            }
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("word"));
        }
    }

    /** count.py, which Storm starts as a process of its own. */
    public static final class Count extends ShellBolt implements IRichBolt {
        public Count() {
            super("python3", "count.py");
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("word", "count"));
        }

        @Override
        public Map<String, Object> getComponentConfiguration() {
            return null;
        }
    }

    public static void main(String[] arguments) throws Exception {
        String brokers = arguments[0];
        String sentences = arguments[1];
        String counts = arguments[2];

        var spout = KafkaSpoutConfig.builder(brokers, sentences)
            .setProp("group.id", "word-count")
            .setFirstPollOffsetStrategy(FirstPollOffsetStrategy.UNCOMMITTED_EARLIEST)
            .setProcessingGuarantee(KafkaSpoutConfig.ProcessingGuarantee.AT_LEAST_ONCE)
            .setOffsetCommitPeriodMs(1_000)
            .build();

        var producer = new Properties();
        producer.put("bootstrap.servers", brokers);
        producer.put("acks", "all");
        producer.put("key.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        producer.put("value.serializer", "org.apache.kafka.common.serialization.StringSerializer");
        var sink = new KafkaBolt<String, String>()
            .withProducerProperties(producer)
            .withTopicSelector(new DefaultTopicSelector(counts))
            .withTupleToKafkaMapper(new FieldNameBasedTupleToKafkaMapper<>("word", "count"));

        var builder = new TopologyBuilder();
        builder.setSpout("sentences", new KafkaSpout<>(spout));
        builder.setBolt("split", new Split()).shuffleGrouping("sentences");
        builder.setBolt("count", new Count(), 2).fieldsGrouping("split", new Fields("word"));
        builder.setBolt("counts", sink).shuffleGrouping("count");

        var config = new Config();
        config.setMaxSpoutPending(1_000);
        config.setMessageTimeoutSecs(30);
        try (var cluster = new LocalCluster();
                var topology = cluster.submitTopology("word-count", config, builder.createTopology())) {
            System.out.println("the topology runs");
            System.in.transferTo(OutputStream.nullOutputStream()); // until Ctrl-D
        }
        System.exit(0);
    }
}
