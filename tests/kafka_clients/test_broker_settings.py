"""What a broker's own settings change for its clients: automatic topics, retention, a second process."""

import subprocess
import time
from collections.abc import Callable

import confluent_kafka
from tests.kafka_clients.adapters import AioKafka, Client, Confluent, KafkaPython, Sent, take
from tests.kafka_clients.harness import BrokerProcess, wait_for
from tests.kafka_clients.wire_client import Wire

from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

StartBroker = Callable[..., BrokerProcess]

UNKNOWN_TOPIC_OR_PARTITION = 3


def first_offset(broker: BrokerProcess, topic: str) -> int:
    """Asked of the admin client: a librdkafka consumer that is closed while it resets an offset that is out
    of range locks itself up for good, which no signal ends."""
    where = confluent_kafka.TopicPartition(topic, 0)
    earliest = {where: confluent_kafka.admin.OffsetSpec.earliest()}
    found: int = broker.admin.list_offsets(earliest)[where].result(30).offset
    return found


def test_a_topic_is_made_by_the_first_who_asks_with_the_brokers_defaults(start_broker: StartBroker) -> None:
    broker = start_broker({"num.partitions": "3"})
    for client in (Confluent, AioKafka, KafkaPython):
        made: Client = client(broker.bootstrap)
        made.produce(f"by-{made.name}", [Sent(b"v")])
        assert (
            len(broker.admin.list_topics(f"by-{made.name}", timeout=30).topics[f"by-{made.name}"].partitions)
            == 3
        )


def test_no_topic_is_made_where_that_is_switched_off(start_broker: StartBroker) -> None:
    broker = start_broker({"auto.create.topics.enable": "false"})
    with Wire(broker.port) as wire:
        for version in range(MetadataRequest.VERSIONS[1] + 1):
            asked = MetadataRequest(topics=[MetadataRequestTopic(name="not-there")])
            (answer,) = wire.call(asked, version).topics
            assert answer.error_code == UNKNOWN_TOPIC_OR_PARTITION
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "topic.metadata.propagation.max.ms": 100,
            "message.timeout.ms": 30_000,
        }
    )
    errors = []
    producer.produce("not-there", b"v", on_delivery=lambda error, _: errors.append(error.code()))
    assert producer.flush(40) == 0
    assert errors == [confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART]
    assert "not-there" not in broker.admin.list_topics(timeout=30).topics


def test_old_segments_go_by_size_and_by_time(start_broker: StartBroker) -> None:
    broker = start_broker({"log.retention.check.interval.ms": "100", "log.segment.delete.delay.ms": "0"})
    client = Confluent(broker.bootstrap)
    broker.create_topic("by-size", config={"segment.bytes": "20000", "retention.bytes": "50000"})
    broker.create_topic("by-time", config={"segment.bytes": "20000", "retention.ms": "3600000"})
    broker.create_topic("kept", config={"segment.bytes": "20000", "retention.ms": "-1"})
    old = int(time.time() * 1000) - 7_200_000
    for _ in range(20):
        client.produce("by-size", [Sent(b"x" * 9_000)])
        client.produce("by-time", [Sent(b"x" * 9_000, timestamp_ms=old)])
        client.produce("kept", [Sent(b"x" * 9_000, timestamp_ms=old)])
    client.produce("by-time", [Sent(b"fresh " + b"x" * 15_000)])
    wait_for(lambda: first_offset(broker, "by-size") >= 10, 15, "by-size to shrink")
    assert first_offset(broker, "by-size") < 20
    wait_for(lambda: first_offset(broker, "by-time") == 20, 15, "the old records to go")
    assert first_offset(broker, "kept") == 0
    wait_for(lambda: len(broker.segments("by-time")) == 1, 15, "the files to go")
    with client.reader("by-time") as reader:
        assert (take(reader, 1)[0].value or b"").startswith(b"fresh")
    with client.reader("by-size", offset=0) as reader:
        assert take(reader, 1)[0].offset == first_offset(broker, "by-size")


def test_retention_of_a_shared_topic_never_hides_fresh_records_from_a_slow_reader(
    start_broker: StartBroker,
) -> None:
    """A reader whose segment is deleted under it is told so, and goes on where the log begins now."""
    broker = start_broker({"log.retention.check.interval.ms": "50", "log.segment.delete.delay.ms": "0"})
    client = Confluent(broker.bootstrap)
    broker.create_topic("t", config={"segment.bytes": "10000", "retention.bytes": "30000"})
    with client.reader("t", partition_bytes=1000) as reader:
        for n in range(100):
            client.produce("t", [Sent(b"%d " % n + b"x" * 3000)])
        received = []
        wait_for(lambda: received.extend(reader.poll(0.1)) or (received and received[-1].offset == 99), 20)
    offsets = [one.offset for one in received]
    assert offsets == sorted(set(offsets))


def test_a_second_broker_on_the_same_data_is_refused_in_one_line(start_broker: StartBroker) -> None:
    broker = start_broker()
    second = BrokerProcess(broker.log_path.parent)
    done = subprocess.run(second.command(), capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode != 0
    assert "in use by another broker" in done.stderr
    assert str(broker.process.pid) in done.stderr
    assert "Traceback" not in done.stderr
    Confluent(broker.bootstrap).produce("t", [Sent(b"the first goes on")])


def test_what_was_written_is_there_after_a_clean_stop_and_start(start_broker: StartBroker) -> None:
    broker = start_broker()
    client = Confluent(broker.bootstrap)
    broker.create_topic("t", 4, {"retention.ms": "777777", "compression.type": "zstd"})
    client.produce("t", [Sent(str(n).encode(), str(n).encode()) for n in range(1000)], idempotent=True)
    assert broker.stop() == 0
    assert broker.start() < 60
    with client.reader("t", range(4)) as reader:
        assert sorted(int(one.value or b"-1") for one in take(reader, 1000)) == list(range(1000))
    resource = confluent_kafka.admin.ConfigResource(confluent_kafka.admin.ResourceType.TOPIC, "t")
    configs = broker.admin.describe_configs([resource])[resource].result(30)
    assert configs["retention.ms"].value == "777777"


def test_the_loss_of_keeper_db_loses_no_setting(start_broker: StartBroker) -> None:
    broker = start_broker({"log.retention.check.interval.ms": "100", "log.retention.ms": "1"})
    broker.create_topic("kept", 1, {"retention.ms": "-1"})
    broker.create_topic("short")
    Confluent(broker.bootstrap).produce("kept", [Sent(b"v")])
    broker.kill()
    for path in broker.data.glob("keeper.db*"):
        path.unlink()
    broker.start()
    Confluent(broker.bootstrap).produce("short", [Sent(b"v")])
    wait_for(lambda: first_offset(broker, "short") == 1)  # by a check that looks at all topics
    assert first_offset(broker, "kept") == 0
    assert "cleanup.policy" not in broker.log
    assert broker.bugs() == []
