"""kill -9 under load, and torn tails: what was acknowledged is there afterwards, once, and in order.

Producers go on over the restarts, as they would in life. `OTTLA_CRASH_SEED` and `OTTLA_CRASH_ROUNDS` repeat
or lengthen a run; the seed of every run is printed.
"""

import os
import random
import re
import struct
import threading
from collections import defaultdict
from collections.abc import Callable

import confluent_kafka
import pytest
from tests.kafka_clients.adapters import Confluent, Sent, take
from tests.kafka_clients.harness import BrokerProcess, wait_for
from tests.kafka_clients.wire_client import Wire, batch

from ottla.records.batch import LOG_OVERHEAD
from ottla.records.builder import NewRecord, build_batch

StartBroker = Callable[..., BrokerProcess]

TOPIC = "load"
PARTITIONS = 4
PRODUCERS = 3
MADE_AGAIN = r"(index|snapshot|checkpoint)$"
ROUNDS = int(os.environ.get("OTTLA_CRASH_ROUNDS", "3"))


class Load(threading.Thread):
    """One idempotent producer, sending numbers to all partitions until told to stop."""

    def __init__(self, name: int, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.number = name
        self.acknowledged: dict[int, list[int]] = defaultdict(list)
        self.sent: dict[int, int] = defaultdict(int)
        self.errors: list[str] = []
        self.left = 0
        self._stopping = threading.Event()
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 2,
                "batch.num.messages": 500,
                "compression.type": ("none", "lz4", "zstd")[name % 3],
                "message.timeout.ms": 120_000,
                "retry.backoff.ms": 20,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "queue.buffering.max.messages": 20_000,
                "log_level": 0,
            }
        )

    @property
    def count(self) -> int:
        return sum(len(numbers) for numbers in self.acknowledged.values())

    def run(self) -> None:
        while not self._stopping.is_set():
            for partition in range(PARTITIONS):
                value = b"%d %d" % (self.number, self.sent[partition])
                try:
                    self._producer.produce(TOPIC, value, partition=partition, on_delivery=self._on_delivery)
                    self.sent[partition] += 1
                except BufferError:
                    self._producer.poll(0.05)
            self._producer.poll(0.0005)
        self.left = self._producer.flush(60)

    def stop(self) -> None:
        self._stopping.set()
        self.join(90)

    def _on_delivery(
        self, error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message
    ) -> None:
        if error:
            self.errors.append(str(error))
        else:
            self.acknowledged[message.partition()].append(int(message.value().split()[1]))


@pytest.mark.parametrize("settings", [{}, {"log.flush.interval.messages": "1"}], ids=["page-cache", "fsync"])
def test_what_was_acknowledged_survives_kill_9_once_and_in_order(
    start_broker: StartBroker, settings: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    seed = int(os.environ.get("OTTLA_CRASH_SEED", random.randrange(1 << 30)))
    chance = random.Random(seed)
    broker = start_broker({"log.segment.bytes": "300000", **settings})
    broker.create_topic(TOPIC, PARTITIONS)
    loads = [Load(number, broker.bootstrap) for number in range(PRODUCERS)]
    for load in loads:
        load.start()
    restarts = []
    for _ in range(ROUNDS):
        goal = sum(load.count for load in loads) + chance.randrange(500, 4000)
        wait_for(lambda goal=goal: sum(load.count for load in loads) >= goal, 60, "acknowledgements")
        broker.kill()
        restarts.append(broker.start())
    goal = sum(load.count for load in loads) + 1000
    wait_for(lambda: sum(load.count for load in loads) >= goal, 60, "life after the last crash")
    for load in loads:
        load.stop()
    assert [error for load in loads for error in load.errors] == [], f"seed {seed}"
    assert [load.left for load in loads] == [0] * PRODUCERS, f"seed {seed}"
    stored = read_back(broker)
    for load in loads:
        for partition in range(PARTITIONS):
            expected = list(range(load.sent[partition]))
            assert load.acknowledged[partition] == expected, f"seed {seed}"
            assert stored[load.number, partition] == expected, f"seed {seed}"
    total = sum(map(len, stored.values()))
    with capsys.disabled():
        seconds = ", ".join(f"{one:.2f}" for one in restarts)
        print(
            f"\ncrash: seed {seed}, {ROUNDS} kills, {total} records each once; served again after {seconds} s"
        )


def read_back(broker: BrokerProcess) -> dict[tuple[int, int], list[int]]:
    """The numbers of each producer in each partition, in the order of the log."""
    stored: dict[tuple[int, int], list[int]] = defaultdict(list)
    with Confluent(broker.bootstrap).reader(TOPIC, range(PARTITIONS)) as reader:
        total = sum(reader.ends(partition)[1] for partition in range(PARTITIONS))
        for one in take(reader, total, 60):
            producer, number = map(int, (one.value or b"").split())
            stored[producer, one.partition].append(number)
    return stored


def last_batch_at(data: bytes) -> int:
    at = last = 0
    while at < len(data):
        last = at
        at += LOG_OVERHEAD + struct.unpack_from(">i", data, at + 8)[0]
    return last


def test_a_torn_tail_is_cut_off_and_everything_before_it_served(start_broker: StartBroker) -> None:
    """One partition per kind of damage: cut at every byte of the last batch, and several kinds of junk."""
    broker = start_broker()
    size = len(batch(b"last"))
    junk = [b"\x00", b"\x00" * 5000, b"\xff" * 100, os.urandom(300), bytes(batch(b"next"))[:-1], bytes(12)]
    partitions = size + len(junk)
    broker.create_topic("t", partitions)
    with Wire(broker.port) as wire:
        for partition in range(partitions):
            for values in ((b"a", b"b"), (b"c",), (b"last",)):
                assert wire.produce("t", bytes(batch(*values)), partition=partition).error_code == 0
    broker.kill()
    for partition in range(partitions):
        (segment,) = broker.segments("t", partition)
        data = segment.read_bytes()
        if partition < size:
            segment.write_bytes(data[: last_batch_at(data) + partition])
        else:
            segment.write_bytes(data + junk[partition - size])
    broker.start()
    with Wire(broker.port) as wire:
        for partition in range(partitions):
            kept = [b"a", b"b", b"c"] if partition < size else [b"a", b"b", b"c", b"last"]
            assert [one.value for one in wire.fetch("t", partition=partition)] == kept
            again = wire.produce("t", bytes(batch(b"new")), partition=partition)
            assert (again.error_code, again.base_offset) == (0, len(kept))
            assert [one.value for one in wire.fetch("t", partition=partition)] == [*kept, b"new"]


def test_a_damaged_byte_in_the_last_batch_costs_that_batch_only(start_broker: StartBroker) -> None:
    broker = start_broker()
    size = len(batch(b"last"))
    # The base offset and the leader epoch are outside the checksum, and a gap in offsets is legal.
    places = [at for at in range(size) if at in range(8, 12) or at >= 16]
    broker.create_topic("t", len(places))
    with Wire(broker.port) as wire:
        for partition in range(len(places)):
            for values in ((b"a", b"b"), (b"last",)):
                wire.produce("t", bytes(batch(*values)), partition=partition)
    broker.kill()
    for partition, place in enumerate(places):
        (segment,) = broker.segments("t", partition)
        data = bytearray(segment.read_bytes())
        data[last_batch_at(bytes(data)) + place] ^= 0x81
        segment.write_bytes(data)
    broker.start()
    with Wire(broker.port) as wire:
        for partition, place in enumerate(places):
            values = [one.value for one in wire.fetch("t", partition=partition)]
            assert values == [b"a", b"b"], f"byte {place}"


@pytest.mark.parametrize("suffix", ["index", "timeindex", "snapshot", "checkpoint", "everything"])
def test_files_that_can_be_made_again_are(start_broker: StartBroker, suffix: str) -> None:
    """Indexes, snapshots and checkpoints: deleted, or full of nonsense, after a crash."""
    broker = start_broker({"log.segment.bytes": "50000", "log.index.interval.bytes": "1000"})
    client = Confluent(broker.bootstrap)
    broker.create_topic("t", 2)
    start = 1_700_000_000_000
    with Wire(broker.port) as wire:
        for n in range(40):
            value = build_batch([NewRecord(None, b"x" * 3000, (), start + n)])
            assert wire.produce("t", bytes(value), partition=n % 2).error_code == 0
    broker.kill()
    chance = random.Random(suffix)
    for folder in (broker.data, broker.data / "t-0", broker.data / "t-1"):
        for path in sorted(folder.iterdir()):
            is_wanted = re.search(MADE_AGAIN if suffix == "everything" else suffix + "$", path.name)
            if not is_wanted:
                continue
            if folder.name == "t-1":
                path.write_bytes(chance.randbytes(200))
            else:
                path.unlink()
    broker.start()
    with client.reader("t", range(2)) as reader:
        assert len(take(reader, 40)) == 40
        for partition in range(2):
            assert reader.ends(partition) == (0, 20)
            assert reader.offset_for_time(partition, start + 20) == 10
    client.produce("t", [Sent(b"after")], partition=0)


def test_a_producer_that_waits_for_every_record_sees_each_of_them_after_a_crash(
    start_broker: StartBroker,
) -> None:
    """acks=1 and no idempotence: what was answered is in the page cache, and the kernel did not die."""
    broker = start_broker()
    sent: list[bytes] = []
    for n in range(3):
        with Wire(broker.port) as wire:
            if n == 0:
                broker.create_topic("t")
            for m in range(200):
                value = b"%d %d" % (n, m)
                assert wire.produce("t", bytes(batch(value)), acks=1).error_code == 0
                sent.append(value)
        broker.kill()
        broker.start()
    with Confluent(broker.bootstrap).reader("t") as reader:
        assert [one.value for one in take(reader, len(sent))] == sent
