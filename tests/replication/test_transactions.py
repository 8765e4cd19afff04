"""Transactions between brokers: broker 2 coordinates, brokers 1 and 3 lead the partitions."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.api.asking import fetch, to, values
from tests.replication.pump import Cluster
from tests.support.transactions import transactional

from ottla.base.errors import ErrorCode
from ottla.base.ids import TRANSACTIONS_TOPIC
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.write_txn_markers import WriteTxnMarkersRequest

LEADERS = (1, 3)
COORDINATOR = 2


@dataclass(eq=False)
class World:
    cluster: Cluster = field(default_factory=Cluster)
    coordinator: int = COORDINATOR
    producer: tuple[int, int] = (-1, -1)

    def __post_init__(self) -> None:
        self.cluster.topic(TRANSACTIONS_TOPIC, (2, 3), topic_id=b"x" * 16, cleanup_policy="compact")
        self.cluster.topic("t", (1,), (3,))
        self.cluster.run()

    def ask(self, broker: int, request: Any, version: int | None = None) -> Any:
        pending = self.cluster.client(broker).ask(request, version)
        for _ in range(200):
            self.cluster.run()
            if pending.answer is not None:
                return pending.answer
            self.cluster.pass_time(50)
        raise AssertionError(f"no answer to {request}")

    def init(self) -> None:
        request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000)
        while (answer := self.ask(self.coordinator, request)).error_code:
            self.cluster.pass_time(100)
        self.producer = answer.producer_id, answer.producer_epoch

    def add(self, *indexes: int) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=self.producer[0],
            v3_and_below_producer_epoch=self.producer[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=list(indexes))],
        )
        (topic,) = self.ask(self.coordinator, request, 3).results_by_topic_v3_and_below
        assert {part.partition_error_code for part in topic.results_by_partition} == {0}

    def produce(self, index: int, value: str = "v", *, version: int = 12, sequence: int = 0) -> int:
        producer_id, epoch = self.producer
        request = to("t", transactional(sequence, value, producer_id=producer_id, epoch=epoch))
        request.topic_data[0].partition_data[0].index = index
        request.transactional_id = "x"
        answer = self.ask(LEADERS[index], request, version)
        return answer.responses[0].partition_responses[0].error_code  # type: ignore[no-any-return]

    def end(self, *, committed: bool = True, version: int = 5) -> int:
        request = EndTxnRequest(
            transactional_id="x",
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            committed=committed,
        )
        answer = self.ask(self.coordinator, request, version)
        if not answer.error_code and version >= 5:
            self.producer = answer.producer_id, answer.producer_epoch
        return answer.error_code  # type: ignore[no-any-return]

    def state(self) -> str:
        request = DescribeTransactionsRequest(transactional_ids=["x"])
        (described,) = self.ask(self.coordinator, request).transaction_states
        return described.transaction_state  # type: ignore[no-any-return]

    def is_open(self, index: int) -> bool:
        partition = self.cluster.partition(LEADERS[index], "t", index)
        return partition.last_stable_offset < partition.log.log_end_offset

    def settle(self) -> None:
        self.cluster.pass_time(2_000)

    def sent(self, kind: type) -> list[tuple[int, int]]:
        return [(sender, peer) for sender, peer, request in self.cluster.sent if isinstance(request, kind)]


@pytest.fixture
def world() -> World:
    world = World()
    world.init()
    return world


@pytest.mark.parametrize("committed", [True, False])
def test_a_transaction_over_two_leaders_ends_on_both(world: World, committed: bool) -> None:
    assert [world.produce(0, "a"), world.produce(1, "b")] == [ErrorCode.NONE] * 2
    assert world.is_open(0)
    assert world.is_open(1)
    assert world.sent(AddPartitionsToTxnRequest) == [(1, 2), (3, 2)]
    assert world.end(committed=committed) == ErrorCode.NONE
    world.settle()
    assert not world.is_open(0)
    assert not world.is_open(1)
    assert sorted(world.sent(WriteTxnMarkersRequest)) == [(2, 1), (2, 3)]
    assert world.state() == ("CompleteCommit" if committed else "CompleteAbort")


def test_with_v1_the_leader_verifies_what_the_producer_has_added(world: World) -> None:
    world.add(0)
    assert world.produce(0, "a", version=11) == ErrorCode.NONE
    assert world.produce(1, "b", version=11) == ErrorCode.TRANSACTION_ABORTABLE
    assert world.produce(1, "b", version=9) == ErrorCode.INVALID_TXN_STATE
    assert world.end(committed=False, version=4) == ErrorCode.NONE
    world.settle()
    assert not world.is_open(0)
    assert values(fetch(world.cluster.client(3), "t", partition=1)) == []


def test_the_next_transaction_may_begin_before_the_markers_of_the_last_have_arrived(world: World) -> None:
    world.produce(0, "a")
    assert world.end() == ErrorCode.NONE
    while (code := world.produce(0, "b")) != ErrorCode.NONE:
        assert code == ErrorCode.NOT_ENOUGH_REPLICAS, "after which a client tries again"
    assert world.end() == ErrorCode.NONE
    world.settle()
    assert not world.is_open(0)


def test_while_the_coordinator_is_out_of_reach_a_leader_appends_nothing(world: World) -> None:
    world.cluster.cut(1, 2)
    assert world.produce(0, "a") == ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.cluster.partition(1).log.log_end_offset == 0
    world.cluster.heal()
    assert world.produce(0, "a") == ErrorCode.NONE


def test_a_leader_that_is_out_of_reach_gets_its_marker_later(world: World) -> None:
    world.produce(0, "a")
    world.produce(1, "b")
    world.cluster.cut(2, 1)
    assert world.end() == ErrorCode.NONE
    world.settle()
    assert world.is_open(0)
    assert not world.is_open(1)
    assert world.state() == "PrepareCommit"
    world.cluster.heal()
    world.cluster.pass_time(10_000)
    assert not world.is_open(0)
    assert world.state() == "CompleteCommit"


def test_another_coordinator_goes_on_with_what_was_decided(world: World) -> None:
    world.produce(0, "a")
    world.produce(1, "b")
    world.cluster.cut(2, 1)
    assert world.end() == ErrorCode.NONE
    world.cluster.state(TRANSACTIONS_TOPIC, leader=3, leader_epoch=1, isr=(3, 2))
    world.coordinator = 3
    world.cluster.pass_time(3_000)
    assert not world.is_open(0)
    assert not world.is_open(1)
    assert world.state() == "CompleteCommit"


def test_a_coordinator_that_was_replaced_confirms_nothing(world: World) -> None:
    """It has not heard that another coordinates now, and that the transaction was aborted there."""
    world.produce(0, "a")
    world.cluster.make_deaf(2)
    world.cluster.cut(2, 3)
    world.cluster.cut(2, 1)
    world.cluster.state(TRANSACTIONS_TOPIC, leader=3, leader_epoch=1, isr=(3,))
    world.coordinator = 3
    world.cluster.pass_time(10_000)
    assert world.end(committed=False) == ErrorCode.NONE
    world.settle()
    assert not world.is_open(0)
    assert world.produce(0, "next") == ErrorCode.NONE


def test_a_transaction_that_nobody_ends_is_aborted_on_every_leader(world: World) -> None:
    world.produce(0, "a")
    world.produce(1, "b")
    world.cluster.pass_time(80_000)
    assert not world.is_open(0)
    assert not world.is_open(1)
    assert world.state() == "CompleteAbort"
    assert world.end() != ErrorCode.NONE
