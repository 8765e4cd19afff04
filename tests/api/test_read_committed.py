"""Consumers that read what is committed only: how far they see, what they are told, when they are woken."""

import pytest
from tests.api.asking import BY_NAME, batch, create, fetch, fetch_of, idempotent, parts, produce, values
from tests.api.harness import NOW, Client, Machine
from tests.api.test_list_offsets import LATEST, MAX_TIMESTAMP, look_up
from tests.log.read_committed import committed

from ottla.api.partition_reads import ABORTED_BYTES
from ottla.base.ids import TopicPartition
from ottla.records.control import Marker
from ottla.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.wire.messages.fetch import PartitionData

READ_COMMITTED = 1


class Topic:
    """A topic of one partition, and a client of the broker that leads it."""

    def __init__(self, **configs: str) -> None:
        self.machine = Machine()
        self.client: Client = self.machine.client()
        create(self.client, "t", **configs)
        self.partition = self.machine.broker.partitions[TopicPartition("t", 0)]

    def write(self, records: bytes) -> None:
        """As Produce does it with a transaction that was verified."""
        self.machine.broker.replicas.append(
            self.partition,
            memoryview(bytearray(records)),
            acks=-1,
            now_ms=NOW,
            wall_ms=NOW,
            produce_version=13,
        )
        self.machine.carry_out()

    def end(self, committed: bool, *, producer_id: int = 7, epoch: int = 1) -> None:
        marker = Marker(producer_id, epoch, committed, coordinator_epoch=4, transaction_version=2)
        self.machine.broker.replicas.append_marker(self.partition, marker, NOW, NOW)
        self.machine.carry_out()

    def fetch(self, offset: int = 0, isolation: int = READ_COMMITTED) -> PartitionData:
        return fetch(self.client, "t", offset, isolation_level=isolation)


def transactional(
    *values: str, sequence: int = 0, epoch: int = 0, producer_id: int = 7, at: int = NOW
) -> bytes:
    return idempotent(sequence, *values, producer_id=producer_id, epoch=epoch, transactional=True, at=at)


def named(part: PartitionData) -> list[tuple[int, int]]:
    return [(aborted.producer_id, aborted.first_offset) for aborted in part.aborted_transactions or ()]


def seen(part: PartitionData) -> list[str]:
    return [(record.value or b"").decode() for record in committed(bytes(part.records or b""), named(part))]


@pytest.fixture
def topic() -> Topic:
    return Topic()


def test_an_open_transaction_is_seen_by_those_alone_who_read_all(topic: Topic) -> None:
    topic.write(batch("plain"))
    topic.write(transactional("open"))
    topic.write(batch("behind"))
    part = topic.fetch()
    assert (values(part), part.high_watermark, part.last_stable_offset) == (["plain"], 3, 1)
    assert part.aborted_transactions == []
    part = topic.fetch(isolation=0)
    assert (values(part), part.last_stable_offset) == (["plain", "open", "behind"], 1)
    assert part.aborted_transactions is None


def test_what_was_aborted_is_named_to_those_alone_who_read_what_is_committed(topic: Topic) -> None:
    topic.write(transactional("aborted"))
    topic.write(transactional("committed", producer_id=8))
    topic.end(False)
    topic.end(True, producer_id=8)
    part = topic.fetch()
    assert (named(part), seen(part), part.last_stable_offset) == ([(7, 0)], ["committed"], 4)
    part = topic.fetch(isolation=0)
    assert part.aborted_transactions is None
    assert values(part)[:2] == ["aborted", "committed"]
    assert named(topic.fetch(3)) == []
    assert topic.fetch(4).aborted_transactions == []


def test_the_end_of_a_transaction_wakes_those_who_wait_for_it(topic: Topic) -> None:
    topic.write(transactional("a"))
    reader = topic.machine.client()
    pending = reader.ask(fetch_of(("t", 0, 0), max_wait_ms=500, isolation_level=READ_COMMITTED), BY_NAME)
    topic.write(transactional("b", sequence=1))
    topic.write(batch("behind"))
    assert pending.answer is None
    topic.end(True)
    part = parts(pending.answer)["t", 0]
    assert (seen(part), part.last_stable_offset) == (["a", "b", "behind"], 4)


def test_bytes_behind_the_last_stable_offset_do_not_count_as_enough(topic: Topic) -> None:
    plain = batch("plain")
    topic.write(plain)
    asked = fetch_of(("t", 0, 0), max_wait_ms=500, min_bytes=2 * len(plain), isolation_level=READ_COMMITTED)
    pending = topic.client.ask(asked, BY_NAME)
    topic.write(transactional("x" * 1_000))
    assert pending.answer is None
    topic.end(False)
    assert seen(parts(pending.answer)["t", 0]) == ["plain"]


def test_latest_is_the_last_stable_offset_and_nothing_behind_it_is_found_by_time(topic: Topic) -> None:
    topic.write(batch("plain", at=NOW + 1))
    topic.write(transactional("open", at=NOW + 5))
    assert look_up(topic.client, LATEST, isolation=READ_COMMITTED) == (1, -1, 0)
    assert look_up(topic.client, LATEST) == (2, -1, 0)
    assert look_up(topic.client, NOW + 1, isolation=READ_COMMITTED)[0] == 0
    assert look_up(topic.client, NOW + 2, isolation=READ_COMMITTED)[0] == -1
    assert look_up(topic.client, NOW + 2)[0] == 1
    assert look_up(topic.client, MAX_TIMESTAMP, isolation=READ_COMMITTED)[0] == -1
    topic.end(False)
    assert look_up(topic.client, LATEST, isolation=READ_COMMITTED) == (3, -1, 0)
    assert look_up(topic.client, NOW + 2, isolation=READ_COMMITTED)[0] == 1


def test_naming_what_was_aborted_counts_as_reading(
    topic: Topic,
) -> None:
    allowance = topic.machine.broker.allowance
    topic.write(transactional("aborted"))
    topic.end(False)
    topic.machine.is_one_round = True
    before = allowance.read_left
    part = topic.fetch()
    cost = len(part.records or b"") + ABORTED_BYTES
    assert before - allowance.read_left == cost


def test_a_producers_open_transaction_and_coordinator_are_described(topic: Topic) -> None:
    topic.write(batch("plain"))
    topic.write(transactional("open"))
    asked = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0])])

    def described() -> tuple[int, ...]:
        (producer,) = topic.client.send(asked).topics[0].partitions[0].active_producers
        return (
            producer.producer_id, producer.producer_epoch, producer.last_sequence,
            producer.coordinator_epoch, producer.current_txn_start_offset,
        )  # fmt: skip

    assert described() == (7, 0, 0, -1, 1)
    topic.end(True)
    assert described() == (7, 1, -1, 4, -1)
    produce(topic.client, "t", batch("plain"))
    assert described() == (7, 1, -1, 4, -1)
