"""Offsets in transactions over the wire. One broker is everything: the coordinator of the group, that of the
transaction, and the leader of the partitions."""

from typing import Any

import pytest
from tests.api.asking import create
from tests.api.groups import committed
from tests.api.harness import Machine
from tests.api.test_late_frames import FENCED, Producer
from tests.support.groups import G, fetching, find
from tests.support.transactions import adding

from ottla.base.errors import ErrorCode
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequest

STABLE_MS = 30_000


@pytest.fixture
def machine() -> Machine:
    machine = Machine({"offsets.topic.num.partitions": "3"})
    create(machine.client(), "t", 2)
    machine.client().send(find(G), 2)
    return machine


class Copier(Producer):
    def offsets(self, offset: int) -> TxnOffsetCommitRequest:
        """The next commit, to be sent now or later."""
        if not self.is_v2:
            request = AddOffsetsToTxnRequest(
                transactional_id="x", producer_id=self.id, producer_epoch=self.epoch, group_id=G
            )
            assert self._answer(request, 3).error_code == ErrorCode.NONE
        return adding(offset, producer_id=self.id, epoch=self.epoch)

    def deliver_offsets(self, request: TxnOffsetCommitRequest) -> int:
        answer: Any = self._answer(request, 5 if self.is_v2 else 4)
        return int(answer.topics[0].partitions[0].error_code)

    def commit(self, offset: int) -> None:
        assert self.deliver_offsets(self.offsets(offset)) == ErrorCode.NONE


def stable(machine: Machine) -> int:
    """What is committed once no transaction decides about it any more."""
    until_ms = machine.now_ms + STABLE_MS
    while machine.now_ms < until_ms:
        answer = machine.client().send(fetching(version=7, require_stable=True), 7)
        partition = answer.topics[0].partitions[0]
        if partition.error_code != ErrorCode.UNSTABLE_OFFSET_COMMIT:
            return int(partition.committed_offset)
        machine.pass_time(20)
    raise AssertionError("a transaction hangs")


@pytest.mark.parametrize("is_v2", [False, True])
def test_offsets_are_committed_or_aborted_with_their_transaction(machine: Machine, is_v2: bool) -> None:
    copier = Copier(machine, is_v2)
    for number, is_committed in enumerate((True, False, True, False), 1):
        copier.write(1, str(number))
        copier.commit(number)
        copier.end(committed=is_committed)
        assert stable(machine) == (number if is_committed else number - 1)
    machine.restart()
    assert (stable(machine), committed(machine.client())) == (3, 3)


@pytest.mark.parametrize("is_v2", [False, True])
@pytest.mark.parametrize("is_committed", [False, True])
def test_a_commit_after_the_end_is_pending_for_ever_nowhere_faults_2_15(
    machine: Machine, is_v2: bool, is_committed: bool
) -> None:
    copier = Copier(machine, is_v2)
    copier.write(0, "1")
    late = copier.offsets(5)
    copier.end(committed=is_committed)
    machine.pass_time(1_000)
    code = copier.deliver_offsets(late)
    assert code in (FENCED if is_v2 else {ErrorCode.TRANSACTION_ABORTABLE})
    assert stable(machine) == -1


def test_a_commit_of_the_transaction_before_is_no_part_of_the_next_faults_2_15(machine: Machine) -> None:
    copier = Copier(machine, True)
    copier.write(0, "1")
    late = copier.offsets(5)
    copier.end(committed=False)
    copier.commit(7)
    assert copier.deliver_offsets(late) in FENCED
    copier.end(committed=True)
    assert stable(machine) == 7


@pytest.mark.parametrize("is_v2", [False, True])
def test_a_zombie_commits_nothing(machine: Machine, is_v2: bool) -> None:
    zombie = Copier(machine, is_v2)
    zombie.commit(5)
    copier = Copier(machine, is_v2)
    assert stable(machine) == -1, "its transaction was aborted when the next one came"
    copier.commit(7)
    assert zombie.deliver_offsets(adding(6, producer_id=zombie.id, epoch=zombie.epoch)) in FENCED
    copier.end(committed=True)
    assert stable(machine) == 7


@pytest.mark.parametrize("is_v2", [False, True])
def test_a_transaction_that_times_out_leaves_no_offset_behind(machine: Machine, is_v2: bool) -> None:
    copier = Copier(machine, is_v2)
    copier.commit(5)
    for _ in range(80):
        machine.pass_time(1_000)
    assert stable(machine) == -1


@pytest.mark.parametrize("is_v2", [False, True])
def test_offsets_that_were_prepared_to_be_committed_are_after_a_restart(
    machine: Machine, is_v2: bool
) -> None:
    copier = Copier(machine, is_v2)
    copier.commit(5)
    machine.client().ask(copier.ending(committed=True), 5 if is_v2 else 4)
    machine.crash()
    for _ in range(20):
        machine.pass_time(100)
    assert stable(machine) == 5
