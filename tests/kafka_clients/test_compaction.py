"""Compaction in a real broker process: a table is restored from a topic that is cleaned all the while."""

import contextlib
import random
import threading
import time
from collections.abc import Callable

import confluent_kafka
import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from tests.kafka_clients.harness import BrokerProcess, is_gone, wait_for

WITHIN_S = 60.0

StartBroker = Callable[..., BrokerProcess]

FAST = {
    "log.cleaner.backoff.ms": "50",
    "log.segment.delete.delay.ms": "0",
    "log.retention.check.interval.ms": "200",
    "offsets.topic.num.partitions": "1",
}
TOPIC = {"cleanup.policy": "compact", "segment.bytes": "50000", "min.cleanable.dirty.ratio": "0.01"}


def _delivered(error: confluent_kafka.KafkaError | None, _message: confluent_kafka.Message) -> None:
    assert error is None, error


class Table:
    """Writes overwrites and deletes of a few keys, and remembers what should be there."""

    def __init__(self, broker: BrokerProcess, topic: str, seed: int = 1, **more: object) -> None:
        self.topic = topic
        self.values: dict[str, str | None] = {}
        self.random = random.Random(seed)
        self.written = 0
        self.producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "linger.ms": 2,
                "batch.size": 16_384,
                "enable.idempotence": True,
                "reconnect.backoff.max.ms": 200,
                **more,
            }
        )

    def write(self, count: int) -> None:
        for _ in range(count):
            key = f"key-{self.random.randrange(200)}"
            value = (
                None if self.random.random() < 0.1 else f"{self.written}-" + "x" * self.random.randrange(300)
            )
            self.written += 1
            self.values[key] = value
            self.producer.produce(self.topic, value, key, on_delivery=_delivered)
            self.producer.poll(0)
        assert self.producer.flush(30) == 0

    @property
    def expected(self) -> dict[str, str]:
        return {key: value for key, value in self.values.items() if value is not None}


def restore(broker: BrokerProcess, topic: str) -> dict[str, str]:
    """What a new consumer builds up from the whole topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "restore",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        partition = TopicPartition(topic, 0, 0)
        _, end = consumer.get_watermark_offsets(partition, timeout=30)
        consumer.assign([partition])
        table: dict[str, str] = {}
        deadline, last = time.monotonic() + 80, -1
        while consumer.position([partition])[0].offset < end:
            assert time.monotonic() < deadline, f"stalled at {consumer.position([partition])} of {end}"
            message = consumer.poll(0.1)
            if message is None:
                continue
            assert message.error() is None
            assert message.offset() > last
            last = message.offset()
            table.pop(message.key().decode(), None)
            if message.value() is not None:
                table[message.key().decode()] = message.value().decode()
            if last >= end - 1:
                break
        return table
    finally:
        consumer.close()


def compactions(broker: BrokerProcess, topic: str) -> int:
    return broker.log.count(f"compacted {topic}-0 ")


def log_bytes(broker: BrokerProcess, topic: str) -> int:
    total = 0
    for path in broker.segments(topic):
        with contextlib.suppress(FileNotFoundError):  # the cleaner has just put another in its place
            total += path.stat().st_size
    return total


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_table_is_restored_from_what_the_cleaner_leaves(start_broker: StartBroker, codec: str) -> None:
    broker = start_broker(FAST)
    broker.create_topic("t", config=TOPIC)
    table = Table(broker, "t", **{"compression.type": codec})
    for _ in range(12):
        table.write(500)
    wait_for(lambda: compactions(broker, "t") >= 1, WITHIN_S, "a compaction")
    wait_for(lambda: restore(broker, "t") == table.expected, WITHIN_S, "the table")
    assert broker.stop() == 0
    broker.start()
    assert restore(broker, "t") == table.expected
    table.write(100)
    assert restore(broker, "t") == table.expected


@pytest.mark.timeout(240)
def test_consumers_restore_while_a_producer_writes_and_the_cleaner_cleans(start_broker: StartBroker) -> None:
    broker = start_broker(FAST)
    broker.create_topic("t", config=TOPIC)
    table = Table(broker, "t")
    table.write(1000)
    stop = threading.Event()

    def go_on() -> None:
        while not stop.is_set():
            table.write(100)

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        deadline = time.monotonic() + 80
        while compactions(broker, "t") < 5:
            assert time.monotonic() < deadline, broker.log[-2000:]
            restore(broker, "t")
    finally:
        stop.set()
        thread.join()
    assert restore(broker, "t") == table.expected
    wait_for(lambda: log_bytes(broker, "t") < table.written * 100, WITHIN_S, "the log to shrink")


def test_killed_at_any_time_the_latest_values_are_there(start_broker: StartBroker) -> None:
    broker = start_broker({**FAST, "log.cleaner.io.max.bytes.per.second": "3000000"})
    broker.create_topic("t", config=TOPIC)
    table = Table(broker, "t")
    for turn in range(6):
        begun = broker.log.count("compaction of t-0 begins")
        table.write(1500)
        wait_for(
            lambda begun=begun: broker.log.count("compaction of t-0 begins") > begun, WITHIN_S, "a cleaning"
        )
        time.sleep(0.03 * turn)  # somewhere inside of it
        broker.kill()
        broker.start()
        assert restore(broker, "t") == table.expected
    wait_for(lambda: compactions(broker, "t") >= 1, WITHIN_S, "a compaction")
    assert restore(broker, "t") == table.expected


def test_a_cleaner_dies_with_its_broker(start_broker: StartBroker) -> None:
    broker = start_broker({**FAST, "log.cleaner.io.max.bytes.per.second": "20000"})
    broker.create_topic("t", config=TOPIC)
    Table(broker, "t").write(2000)
    children = wait_for(lambda: psutil.Process(broker.process.pid).children(), WITHIN_S, "a cleaner")
    broker.kill()
    wait_for(lambda: all(map(is_gone, children)), 30, "the cleaner to go")


def test_a_topic_that_was_deleted_from_may_become_compacted(start_broker: StartBroker) -> None:
    broker = start_broker(FAST)
    broker.create_topic("t", config={"segment.bytes": "50000"})
    table = Table(broker, "t")
    table.write(3000)
    assert compactions(broker, "t") == 0
    resource = ConfigResource(ResourceType.TOPIC, "t")
    for name, value in {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}.items():
        resource.add_incremental_config(ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET))
    broker.admin.incremental_alter_configs([resource])[resource].result(30)
    wait_for(lambda: compactions(broker, "t") >= 1, WITHIN_S, "a compaction")
    wait_for(lambda: log_bytes(broker, "t") < 110_000, WITHIN_S, "the log to shrink")
    assert restore(broker, "t") == table.expected
    table.write(1000)
    assert restore(broker, "t") == table.expected


def test_retention_applies_to_a_topic_with_both_policies(start_broker: StartBroker) -> None:
    broker = start_broker(FAST)
    broker.create_topic("t", config={**TOPIC, "cleanup.policy": "compact,delete", "retention.ms": "3600000"})
    old = int(time.time() * 1000) - 7_200_000
    producer = Producer({"bootstrap.servers": broker.bootstrap, "batch.size": 16_384})
    for n in range(2000):
        producer.produce("t", b"x" * 100, f"old-{n}", timestamp=old)
    assert producer.flush(30) == 0
    for n in range(2000):
        producer.produce("t", b"x" * 100, f"new-{n % 50}")
        producer.poll(0)
    assert producer.flush(30) == 0
    wait_for(lambda: compactions(broker, "t") >= 1, WITHIN_S, "a compaction")
    wait_for(
        lambda: {key[:3] for key in restore(broker, "t")} == {"new"},
        WITHIN_S,
        "the old records to be deleted",
    )


def test_committed_offsets_survive_the_cleaning_of_their_topic(start_broker: StartBroker) -> None:
    broker = start_broker({**FAST, "offsets.topic.segment.bytes": "20000"})
    broker.create_topic("t", 3)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "g",
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 500,
        }
    )
    internal = ConfigResource(ResourceType.TOPIC, "__consumer_offsets")
    consumer.commit(offsets=[TopicPartition("t", 0, 1)], asynchronous=False)
    for name, value in {"segment.bytes": "20000", "min.cleanable.dirty.ratio": "0.01"}.items():
        internal.add_incremental_config(ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET))
    broker.admin.incremental_alter_configs([internal])[internal].result(30)
    n = 0
    deadline = time.monotonic() + 60
    while not compactions(broker, "__consumer_offsets"):
        assert time.monotonic() < deadline, broker.log[-2000:]
        n += 1
        consumer.commit(
            offsets=[TopicPartition("t", partition, n * 10 + partition) for partition in range(3)],
            asynchronous=False,
        )
    expected = {partition: n * 10 + partition for partition in range(3)}

    def committed() -> dict[int, int]:
        found = consumer.committed([TopicPartition("t", partition) for partition in range(3)], timeout=30)
        return {one.partition: one.offset for one in found}

    assert committed() == expected
    broker.kill()
    broker.start()
    assert wait_for(lambda: _quietly(committed) == expected, WITHIN_S, "the offsets")
    assert broker.stop() == 0
    broker.start()
    assert wait_for(lambda: _quietly(committed) == expected, WITHIN_S, "the offsets")
    consumer.close()


def _quietly(ask: Callable[[], dict[int, int]]) -> dict[int, int]:
    try:
        return ask()
    except confluent_kafka.KafkaException:
        return {}


def test_a_damaged_log_is_reported_and_the_others_are_cleaned(start_broker: StartBroker) -> None:
    broker = start_broker({**FAST, "log.cleaner.enable": "false"})
    for name in ("bad", "good"):
        broker.create_topic(name, config=TOPIC)
    good = Table(broker, "good")
    good.write(2000)
    Table(broker, "bad").write(2000)
    assert broker.stop() == 0
    path = broker.segments("bad")[0]
    damaged = bytearray(path.read_bytes())
    damaged[5000] ^= 0xFF
    path.write_bytes(damaged)
    broker.settings["log.cleaner.enable"] = "true"
    broker.start()
    wait_for(lambda: "bad-0 could not be compacted" in broker.log, WITHIN_S, "the report")
    assert str(path) in broker.log
    wait_for(lambda: compactions(broker, "good") >= 1, WITHIN_S, "the other")
    assert restore(broker, "good") == good.expected
    assert broker.log.count("bad-0 could not be compacted") == 1
