"""Frames of a transaction that are delivered late, when it has ended and the producer has gone on: they never
become part of another transaction (rows 2.15 and 4.25 of design note 015). One broker is everything: the
leader of the partitions, and the coordinator of the transaction.
"""

from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.api.asking import create, fetch, to, values
from tests.api.harness import Client, Machine
from tests.support.transactions import transactional

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.produce import ProduceRequest

FENCED = {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH}
HALF_A_MINUTE_MS = 30_000


@dataclass(eq=False)
class Producer:
    """A transactional producer, frame by frame. With `is_v2` its transactions have an epoch each."""

    machine: Machine
    is_v2: bool
    client: Client = field(init=False)
    id: int = -1
    epoch: int = -1
    sequences: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.client = self.machine.client()
        while (
            self.client.send(FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]))
            .coordinators[0]
            .error_code
        ):
            self.machine.pass_time(100)
        self.init()

    def init(self) -> None:
        request = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000)
        while True:
            pending = self.client.ask(request)
            while pending.answer is None:
                self.machine.pass_time(100)
            if not pending.answer.error_code:
                break
            self.machine.pass_time(100)
        self.id, self.epoch, self.sequences = pending.answer.producer_id, pending.answer.producer_epoch, {}

    def add(self, index: int) -> None:
        """What V1 does before it writes to a partition."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name="t", partitions=[index])],
        )
        (topic,) = self.client.send(request, 3).results_by_topic_v3_and_below
        assert topic.results_by_partition[0].partition_error_code == ErrorCode.NONE

    def batch(self, index: int, value: str) -> ProduceRequest:
        """The next batch for a partition, to be sent now or later."""
        if not self.is_v2:
            self.add(index)
        sequence = self.sequences.get(index, 0)
        self.sequences[index] = sequence + 1
        records = transactional(sequence, value, producer_id=self.id, epoch=self.epoch)
        request = to("t", *[None] * index, records)
        request.topic_data[0].partition_data = request.topic_data[0].partition_data[index:]
        request.transactional_id = "x"
        return request

    def deliver(self, request: ProduceRequest) -> int:
        return self._answer(request, 12 if self.is_v2 else 11).responses[0].partition_responses[0].error_code  # type: ignore[no-any-return]

    def write(self, index: int, value: str) -> None:
        assert self.deliver(self.batch(index, value)) == ErrorCode.NONE

    def ending(self, *, committed: bool) -> EndTxnRequest:
        return EndTxnRequest(
            transactional_id="x", producer_id=self.id, producer_epoch=self.epoch, committed=committed
        )

    def deliver_end(self, request: EndTxnRequest) -> Any:
        return self._answer(request, 5 if self.is_v2 else 4)

    def end(self, *, committed: bool) -> None:
        answer = self.deliver_end(self.ending(committed=committed))
        assert answer.error_code == ErrorCode.NONE
        if self.is_v2:
            self.id, self.epoch, self.sequences = answer.producer_id, answer.producer_epoch, {}

    def _answer(self, request: Any, version: int) -> Any:
        """On a connection of its own, as frames that were held back are."""
        pending = self.machine.client().ask(request, version)
        while pending.answer is None:
            self.machine.pass_time(20)
        return pending.answer


@pytest.fixture
def machine() -> Machine:
    machine = Machine()
    create(machine.client(), "t", 2)
    return machine


def is_hanging(machine: Machine, index: int = 0) -> bool:
    partition = machine.broker.partitions[TopicPartition("t", index)]
    return partition.last_stable_offset < partition.high_watermark


def state(machine: Machine) -> str:
    (described,) = (
        machine.client().send(DescribeTransactionsRequest(transactional_ids=["x"])).transaction_states
    )
    return described.transaction_state  # type: ignore[no-any-return]


@pytest.mark.parametrize("is_v2", [False, True])
@pytest.mark.parametrize("committed", [False, True])
def test_a_produce_after_the_end_opens_no_transaction_that_nobody_ends_faults_2_15(
    machine: Machine, is_v2: bool, committed: bool
) -> None:
    producer = Producer(machine, is_v2)
    producer.write(0, "a")
    late = producer.batch(0, "late")
    producer.end(committed=committed)
    machine.pass_time(HALF_A_MINUTE_MS)
    assert producer.deliver(late) in {ErrorCode.TRANSACTION_ABORTABLE, ErrorCode.INVALID_TXN_STATE, *FENCED}
    assert "late" not in values(fetch(machine.client(), "t"))
    assert not is_hanging(machine)


@pytest.mark.parametrize("is_v2", [False, True])
def test_a_produce_to_a_partition_that_the_next_transaction_does_not_have_is_refused_faults_4_25(
    machine: Machine, is_v2: bool
) -> None:
    producer = Producer(machine, is_v2)
    late = producer.batch(0, "late")
    producer.write(1, "a")
    producer.end(committed=False)
    producer.write(1, "b")
    machine.pass_time(HALF_A_MINUTE_MS)
    assert producer.deliver(late) != ErrorCode.NONE
    producer.end(committed=True)
    assert "late" not in values(fetch(machine.client(), "t"))
    assert not is_hanging(machine)


@pytest.mark.parametrize("is_begun", [False, True])
def test_a_late_produce_is_not_part_of_the_next_transaction_in_its_own_partition_faults_4_25(
    machine: Machine, is_begun: bool
) -> None:
    """V2: whether the next transaction has written to the partition or not, its epoch is another."""
    producer = Producer(machine, is_v2=True)
    producer.write(0, "a")
    late = producer.batch(0, "late")
    producer.end(committed=False)
    if is_begun:
        producer.write(0, "b")
    else:
        producer.write(1, "b")
    machine.pass_time(HALF_A_MINUTE_MS)
    assert producer.deliver(late) in FENCED
    producer.end(committed=True)
    assert "late" not in values(fetch(machine.client(), "t"))


def test_an_end_that_comes_late_does_not_end_the_next_transaction_faults_4_25(machine: Machine) -> None:
    """V2: the client gave up on its EndTxn, sent it again on another connection, and went on."""
    producer = Producer(machine, is_v2=True)
    producer.write(0, "a")
    late = producer.ending(committed=True)
    producer.end(committed=True)
    producer.write(0, "b")
    machine.pass_time(HALF_A_MINUTE_MS)
    assert producer.deliver_end(late).error_code in FENCED
    assert state(machine) == "Ongoing"
    assert is_hanging(machine), "the next transaction is open, as it was"
    producer.end(committed=False)
    assert not is_hanging(machine)


def test_an_end_that_was_only_sent_twice_is_answered_as_the_first_time(machine: Machine) -> None:
    producer = Producer(machine, is_v2=True)
    producer.write(0, "a")
    again = producer.ending(committed=True)
    producer.end(committed=True)
    machine.pass_time(1_000)
    answer = producer.deliver_end(again)
    assert (answer.error_code, answer.producer_epoch) == (ErrorCode.NONE, producer.epoch)
    assert state(machine) == "CompleteCommit"


@pytest.mark.parametrize("is_v2", [False, True])
def test_a_produce_that_comes_after_the_transaction_has_timed_out_is_refused_faults_2_15(
    machine: Machine, is_v2: bool
) -> None:
    producer = Producer(machine, is_v2)
    producer.write(0, "a")
    late = producer.batch(0, "late")
    for _ in range(10):
        machine.pass_time(10_000)
    assert state(machine) == "CompleteAbort"
    assert not is_hanging(machine)
    assert producer.deliver(late) in FENCED
    code = producer.deliver_end(producer.ending(committed=True)).error_code
    assert code in {ErrorCode.INVALID_TXN_STATE, *FENCED}
    assert state(machine) == "CompleteAbort"


@pytest.mark.parametrize("is_v2", [False, True])
def test_a_zombie_writes_nothing_once_another_producer_has_its_transactional_id(
    machine: Machine, is_v2: bool
) -> None:
    zombie = Producer(machine, is_v2)
    zombie.write(0, "a")
    late = zombie.batch(0, "late")
    heir = Producer(machine, is_v2)
    heir.write(0, "b")
    assert zombie.deliver(late) in FENCED
    heir.end(committed=True)
    assert "late" not in values(fetch(machine.client(), "t"))
    assert not is_hanging(machine)
