"""The markers of ended transactions on their way to the leaders of their partitions."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.replication.pump import Cluster
from tests.support.transactions import markers, open_transaction

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.broker import transaction_markers
from ottla.broker.broker import Broker
from ottla.broker.effects import ConfirmTree
from ottla.broker.transaction_markers import MarkerSender
from ottla.controller import znodes
from ottla.controller.keeper import Delete
from ottla.records.control import Marker
from ottla.txn.markers import EndedTransaction
from ottla.wire.messages import write_txn_markers as wire
from ottla.wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse

SHARD = 3


@dataclass(eq=False)
class World:
    """Broker 1 coordinates. Topic `t` has a partition that it leads and one that broker 2 leads."""

    cluster: Cluster = field(default_factory=lambda: Cluster((1, 2)))
    written: list[tuple[int, str, set[TopicPartition]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cluster.topic("t", (1,), (2,))
        self.cluster.run()
        broker = self.broker
        self.sender = MarkerSender(
            broker_id=1, image=broker.image, send=broker.outbox.send, writes=broker.marker_writes,
            waiting=broker.waiting, proofs=broker.proofs,
            confirm=lambda now_ms: broker.outbox.put(ConfirmTree(now_ms)),
            on_written=lambda shard, ended, partitions, _now_ms: self.written.append(
                (shard, ended.transactional_id, partitions)
            ),
        )  # fmt: skip

    @property
    def broker(self) -> Broker:
        return self.cluster.nodes[1].broker

    def pump(self) -> None:
        self.sender.pump(self.cluster.now_ms)
        self.cluster.nodes[1].carry_out()
        self.cluster.run()

    def pass_time(self, ms: int) -> None:
        """With all that becomes due on the way."""
        end_ms = self.cluster.now_ms + ms
        while True:
            due_ms = self.sender.next_ms()
            if due_ms is None or due_ms > end_ms:
                break
            self.cluster.pass_time(max(due_ms - self.cluster.now_ms, 0))
            self.pump()
        self.cluster.pass_time(end_ms - self.cluster.now_ms)

    def requests(self) -> list[tuple[int, WriteTxnMarkersRequest]]:
        return [
            (peer, request)
            for _, peer, request in self.cluster.sent
            if isinstance(request, WriteTxnMarkersRequest)
        ]

    def arrived(self) -> set[TopicPartition]:
        return {topic_partition for _, _, partitions in self.written for topic_partition in partitions}

    def end(self, *indexes: int, transactional_id: str = "x", topic: str = "t", **fields: Any) -> None:
        ended = {
            "producer_id": 7, "producer_epoch": 1, "committed": True, "coordinator_epoch": 0,
            "transaction_version": 2, **fields,
        }  # fmt: skip
        partitions = frozenset(TopicPartition(topic, index) for index in indexes)
        transaction = EndedTransaction(transactional_id, partitions=partitions, **ended)
        self.sender.add(SHARD, transaction, self.cluster.now_ms)

    def open(self, index: int, **fields: int) -> None:
        leader = self.broker.image.topics["t"].states[index].leader
        open_transaction(self.cluster.nodes[leader].broker, "t", self.cluster.now_ms, index, **fields)

    def stable_offset(self, index: int) -> int:
        leader = self.broker.image.topics["t"].states[index].leader
        return self.cluster.partition(leader, "t", index).last_stable_offset


@pytest.fixture
def world() -> World:
    return World()


def test_every_partition_gets_its_marker_and_the_coordinator_hears_of_each(world: World) -> None:
    world.open(0)
    world.open(1)
    world.end(0, 1)
    assert world.written == [], "a shard that hands out a transaction is in the middle of something"
    assert world.sender.next_ms() == 0
    world.pump()
    assert world.arrived() == {("t", 0), ("t", 1)}
    assert {(shard, transactional_id) for shard, transactional_id, _ in world.written} == {(SHARD, "x")}
    assert [world.stable_offset(0), world.stable_offset(1)] == [2, 2]
    assert world.sender.next_ms() is None


def test_nothing_is_sent_where_this_broker_leads(world: World) -> None:
    world.end(0)
    world.pump()
    assert (world.arrived(), world.requests()) == ({("t", 0)}, [])


def test_the_request_carries_all_that_a_leader_needs(world: World) -> None:
    world.end(1, committed=False, producer_id=8, producer_epoch=4, coordinator_epoch=6, transaction_version=1)
    world.pump()
    ((peer, request),) = world.requests()
    (marker,) = request.markers
    assert peer == 2
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (8, 4, 6)
    assert (marker.transaction_result, marker.transaction_version) == (False, 1)


def test_a_transaction_without_partitions_is_done_at_once(world: World) -> None:
    world.end()
    world.pump()
    assert world.written == [(SHARD, "x", set())]


def test_one_request_is_under_way_to_a_leader_and_the_next_has_all_that_came_meanwhile(world: World) -> None:
    world.end(1, transactional_id="a", producer_id=1)
    world.sender.pump(world.cluster.now_ms)
    for number, name in enumerate("bcd", 2):
        world.end(1, transactional_id=name, producer_id=number)
        world.sender.pump(world.cluster.now_ms)
    world.cluster.nodes[1].carry_out()
    world.cluster.run()
    sizes = [len(request.markers) for _, request in world.requests()]
    assert sizes == [1, 3]
    assert [name for _, name, _ in world.written] == ["a", "b", "c", "d"]


@pytest.mark.parametrize("index", [0, 1])
def test_a_broker_that_has_too_few_in_sync_replicas_is_asked_again_and_again(
    world: World, index: int
) -> None:
    world.cluster.topic("u", *[(1, 2), (2, 1)], topic_id=b"u" * 16, min_insync_replicas="2")
    world.cluster.is_deciding = False
    world.cluster.state("u", 0, isr=(1,))
    world.cluster.state("u", 1, isr=(2,))
    world.end(index, topic="u")
    world.pump()
    world.pass_time(2_000)
    tries = len(world.requests())
    assert world.written == []
    assert tries <= 10, "more and more slowly"
    world.cluster.state("u", 0, isr=(1, 2))
    world.cluster.state("u", 1, isr=(2, 1))
    world.pass_time(2_000)
    assert world.arrived() == {("u", index)}


def test_a_broker_that_does_not_answer_is_asked_again(world: World) -> None:
    world.cluster.cut(1, 2)
    world.end(0, 1)
    world.pump()
    world.pass_time(5_000)
    assert world.arrived() == {("t", 0)}
    world.cluster.heal()
    world.pass_time(1_000)
    assert world.arrived() == {("t", 0), ("t", 1)}


def test_the_marker_follows_its_partition_to_another_leader(world: World) -> None:
    world.cluster.topic("u", (2, 1), topic_id=b"u" * 16)
    world.cluster.run()
    world.cluster.cut(1, 2)
    world.end(0, topic="u")
    world.pump()
    world.pass_time(1_000)
    assert world.written == []
    world.cluster.state("u", leader=1, leader_epoch=1, isr=(1,))
    world.pass_time(1_000)
    assert world.arrived() == {("u", 0)}


def test_a_partition_without_a_leader_is_waited_for(world: World) -> None:
    world.cluster.state("t", 1, leader=-1, leader_epoch=1)
    world.end(1)
    world.pump()
    world.pass_time(60_000)
    assert (world.written, world.requests()) == ([], [])
    world.cluster.state("t", 1, leader=2, leader_epoch=2)
    world.pass_time(1_000)
    assert world.arrived() == {("t", 1)}


def test_a_topic_that_was_deleted_needs_no_marker(world: World) -> None:
    world.cluster.cut(1, 2)
    world.end(1)
    world.pump()
    world.cluster.write(
        Delete(znodes.topic_config_path("t")), Delete(znodes.state_path("t")), Delete(znodes.topic_path("t"))
    )
    world.pass_time(2_000)
    assert world.arrived() == {("t", 1)}


def test_a_topic_that_this_broker_has_not_heard_of_yet_is_not_taken_for_deleted(world: World) -> None:
    world.cluster.make_deaf(1)
    world.cluster.topic("u", (2,), topic_id=b"u" * 16)
    world.end(0, topic="u")
    world.pump()
    world.pass_time(5_000)
    assert world.written == []
    world.cluster.hear(1)
    world.pass_time(2_000)
    assert world.arrived() == {("u", 0)}
    assert len(world.requests()) == 1


@pytest.mark.parametrize("index", [0, 1])
def test_a_coordinator_that_was_replaced_sends_no_more(world: World, index: int) -> None:
    world.open(index)
    leader = world.broker.image.topics["t"].states[index].leader
    world.cluster.client(leader).ask(markers(Marker(7, 0, True, 9, 1), "t", index))
    world.end(0, 1)
    world.pump()
    before = len(world.requests())
    world.pass_time(5_000)
    assert len(world.requests()) == before
    assert ("t", index) not in world.arrived()


@pytest.mark.parametrize("index", [0, 1])
def test_where_somebody_newer_has_written_no_marker_is_needed_and_the_other_partitions_get_theirs(
    world: World, index: int
) -> None:
    """Whoever can reach the listener can end a transaction in one partition, under a later epoch; the others
    would rest, and the id would be of no use."""
    other = 1 - index
    world.open(index, epoch=5)
    world.open(other)
    leader = world.broker.image.topics["t"].states[other].leader
    world.cluster.state("t", other, leader=-1, leader_epoch=1)
    world.end(0, 1)
    world.pump()
    world.pass_time(1_000)
    world.cluster.state("t", other, leader=leader, leader_epoch=2)
    world.pass_time(2_000)
    assert world.arrived() == {("t", 0), ("t", 1)}
    assert world.stable_offset(other) == 2
    assert world.stable_offset(index) == 0, "what the newer one writes is its own"
    assert world.sender.next_ms() is None


def test_when_the_coordinator_moves_its_markers_are_forgotten(world: World) -> None:
    world.cluster.cut(1, 2)
    world.end(1)
    world.pump()
    world.sender.drop(SHARD)
    world.cluster.heal()
    world.pass_time(5_000)
    assert (world.written, world.sender.next_ms()) == ([], None)


def test_a_later_end_of_the_same_transactional_id_takes_the_place_of_the_earlier(world: World) -> None:
    world.cluster.cut(1, 2)
    world.end(1, producer_epoch=1)
    world.pump()
    world.end(1, producer_epoch=3)
    world.cluster.heal()
    world.pass_time(2_000)
    assert world.written == [(SHARD, "x", {TopicPartition("t", 1)})]
    assert world.cluster.partition(2, "t", 1).log.producers.epoch_of(7) == 3


def test_followers_have_the_marker_before_the_coordinator_hears_of_it(world: World) -> None:
    world.cluster.topic("u", (1, 2), topic_id=b"u" * 16)
    world.cluster.run()
    world.cluster.cut(1, 2)
    world.end(0, topic="u")
    world.pump()
    assert world.written == []
    world.cluster.heal()
    world.cluster.pass_time(1_000)
    world.pump()
    assert world.arrived() == {("u", 0)}


def test_much_is_done_in_pieces(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_markers, "PUMPED_MAX", 10)
    monkeypatch.setattr(transaction_markers, "SENT_MAX", 8)
    world.cluster.topic("here", *[(1,)] * 15, topic_id=b"h" * 16)
    world.cluster.topic("there", *[(2,)] * 15, topic_id=b"u" * 16)
    world.cluster.run()
    world.end(*range(15), topic="here", transactional_id="here")
    world.sender.pump(world.cluster.now_ms)
    assert len(world.arrived()) == 10
    assert world.sender.next_ms() == 0
    world.end(*range(15), topic="there", transactional_id="there", producer_id=9)
    while world.sender.next_ms() == 0:
        world.pump()
    sizes = [
        sum(len(topic.partition_indexes) for marker in request.markers for topic in marker.topics)
        for _, request in world.requests()
    ]
    assert sum(sizes) == 15
    assert max(sizes) <= 8
    assert len(world.arrived()) == 30


def test_an_answer_without_a_word_on_a_partition_is_no_answer(world: World) -> None:
    world.end(1)
    world.sender.pump(world.cluster.now_ms)
    (effect,) = world.broker.outbox.take()
    world.broker.outbox.on_peer_reply(effect.token, WriteTxnMarkersResponse(), world.cluster.now_ms)  # type: ignore[union-attr]
    assert world.written == []
    world.pass_time(1_000)
    assert world.arrived() == {("t", 1)}


def test_errors_that_mean_there_was_nothing_to_end_count_as_written(world: World) -> None:
    world.end(1)
    world.sender.pump(world.cluster.now_ms)
    (effect,) = world.broker.outbox.take()
    result = wire.WritableTxnMarkerPartitionResult(
        partition_index=1, error_code=ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
    )
    topic = wire.WritableTxnMarkerTopicResult(name="t", partitions=[result])
    answer = WriteTxnMarkersResponse(markers=[wire.WritableTxnMarkerResult(producer_id=7, topics=[topic])])
    world.broker.outbox.on_peer_reply(effect.token, answer, world.cluster.now_ms)  # type: ignore[union-attr]
    assert world.arrived() == {("t", 1)}
