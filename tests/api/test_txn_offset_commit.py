"""TxnOffsetCommit, and what OffsetFetch says of it until the transaction has ended."""

from typing import Any

import pytest
from tests.api.groups import broker, committed, flush_every_commit, lead_offsets, shard_of, stable, versions
from tests.api.harness import Client, Machine
from tests.api.test_alter_configs import BROKER, set_configs
from tests.support.groups import G, committing, fetching
from tests.support.transactions import FakeVerifier, adding, markers

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import OFFSETS_TOPIC
from ottla.broker.effects import SyncLog
from ottla.records.control import Marker
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequest

LAST = versions(28)[-1]
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT


def started(
    code: ErrorCode | None = ErrorCode.NONE, **properties: str
) -> tuple[Machine, Client, FakeVerifier]:
    machine, client, _ = broker(**properties)
    machine.broker.verifier = verifier = FakeVerifier(code)
    return machine, client, verifier


def codes(answer: Any) -> list[int]:
    return [partition.error_code for topic in answer.topics for partition in topic.partitions]


def send(client: Client, request: TxnOffsetCommitRequest, version: int = LAST) -> list[int]:
    return codes(client.send(request, version))


def answer(machine: Machine, verifier: FakeVerifier) -> None:
    """The coordinator says yes to all it was asked."""
    for question in verifier.questions:
        question.then({}, machine.now_ms)
    machine.carry_out()


def partition_of(machine: Machine, group: str = G) -> Any:
    return machine.broker.coordinators.groups.partition_of(group)


def end(machine: Machine, *, is_committed: bool = True, epoch: int = 0, producer_id: int = 7) -> list[int]:
    """A marker of transactions V1, as a coordinator sends it."""
    marker = Marker(producer_id, epoch, is_committed, 0, 0)
    request = markers(marker, OFFSETS_TOPIC, partition_of(machine).partition)
    answer = machine.client().send(request)
    return [part.error_code for part in answer.markers[0].topics[0].partitions]


def stable_offset(client: Client, partition: int = 0, version: int = 7) -> tuple[int, int]:
    """The offset and the error, for a reader that wants it stable."""
    answer = client.send(fetching(partition, version=version, require_stable=True), version)
    topics = answer.topics if version < 8 else answer.groups[0].topics
    (told,) = topics[0].partitions
    return told.committed_offset, told.error_code


@pytest.mark.parametrize("version", versions(28))
def test_an_offset_is_committed_with_its_transaction_in_every_version(version: int) -> None:
    machine, client, _ = started()
    client.send(committing(3), 9)
    assert send(client, adding(5, 0, 1, metadata="note"), version) == [ErrorCode.NONE, ErrorCode.NONE]
    assert committed(client) == 3
    assert end(machine) == [ErrorCode.NONE]
    (told,) = client.send(fetching(1), 5).topics[0].partitions
    assert (told.committed_offset, told.metadata) == (5, "note")
    assert told.committed_leader_epoch == (4 if version >= 2 else -1)
    assert committed(client) == 5


def test_an_aborted_offset_is_never_committed() -> None:
    machine, client, _ = started()
    client.send(committing(3), 9)
    send(client, adding(5))
    assert end(machine, is_committed=False) == [ErrorCode.NONE]
    assert (committed(client), stable_offset(client)) == (3, (3, ErrorCode.NONE))
    machine.restart()
    assert committed(machine.client()) == 3


def test_each_partition_has_its_own_error_and_the_others_are_committed() -> None:
    machine, client, _ = started()
    request = adding(5, 0, 2)
    request.topics += adding(5, topic="none").topics + adding(5, 1, metadata="x" * 4097).topics
    assert send(client, request) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
    ]
    end(machine)
    assert (committed(client), committed(client, partition=1)) == (5, -1)


def test_a_commit_of_nothing_that_is_there_is_no_part_of_the_transaction() -> None:
    machine, client, verifier = started()
    assert send(client, adding(5, topic="none")) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert (verifier.questions, shard_of(machine).groups) == ([], {})


def test_a_group_needs_an_id_and_a_transaction_a_producer() -> None:
    _, client, verifier = started()
    assert send(client, adding(5, group="")) == [ErrorCode.INVALID_GROUP_ID]
    for producer_id, epoch in ((-1, 0), (7, -1)):
        request = adding(5, producer_id=producer_id, epoch=epoch)
        assert send(client, request) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    assert verifier.questions == []


@pytest.mark.parametrize(
    ("member", "generation", "code"),
    [
        ("it", 1, ErrorCode.NONE),
        ("it", 0, ErrorCode.ILLEGAL_GENERATION),
        ("nobody", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, ErrorCode.NONE),
    ],
)
def test_a_live_group_is_committed_to_by_its_members_or_by_who_names_nobody(
    member: str, generation: int, code: ErrorCode
) -> None:
    machine, client, _ = started()
    it = stable(machine, client)
    request = adding(5, 0, 7, member_id=it if member == "it" else member, generation_id=generation)
    assert send(client, request) == [code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


# The coordinator of the transaction is asked


@pytest.mark.parametrize("version", versions(28))
def test_before_the_first_commit_its_coordinator_is_asked_and_before_others_not(version: int) -> None:
    machine, client, verifier = started()
    for offset in (5, 6):
        assert send(client, adding(offset), version) == [ErrorCode.NONE]
    (question,) = verifier.questions
    assert (question.transactional_id, question.producer_id, question.producer_epoch) == ("x", 7, 0)
    assert question.topic_partitions == (partition_of(machine),)
    assert question.adds == (version >= 5)
    end(machine)
    send(client, adding(7), version)
    assert len(verifier.questions) == 2, "that is another transaction"


def test_a_commit_waits_for_the_coordinator() -> None:
    machine, client, verifier = started(None)
    pending = client.ask(adding(5), LAST)
    assert pending.answer is None
    assert stable_offset(machine.client()) == (-1, ErrorCode.NONE), "nothing is written yet"
    answer(machine, verifier)
    assert codes(pending.answer) == [ErrorCode.NONE]
    assert stable_offset(machine.client()) == (-1, UNSTABLE)


@pytest.mark.parametrize(
    ("said", "version", "told"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, 3, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.TRANSACTION_ABORTABLE, 4, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, 5, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.INVALID_PRODUCER_EPOCH, 5, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 0, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 5, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 2, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NETWORK_EXCEPTION, 5, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.NETWORK_EXCEPTION, 1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_what_the_coordinator_refuses_is_not_stored(said: ErrorCode, version: int, told: ErrorCode) -> None:
    machine, client, _ = started(said)
    assert send(client, adding(5), version) == [told]
    assert shard_of(machine).groups == {}


def test_a_coordinator_that_does_not_answer_is_waited_for_as_long_as_for_any_commit() -> None:
    machine, client, verifier = started(None)
    pending = client.ask(adding(5), LAST)
    machine.pass_time(5_000)
    assert codes(pending.answer) == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    answer(machine, verifier)
    assert shard_of(machine).groups == {}, "who was told so may have given up"


@pytest.mark.parametrize(("version", "epoch"), [(4, 0), (LAST, 1)])
def test_a_commit_that_comes_after_its_transaction_has_ended_is_refused_faults_2_15(
    version: int, epoch: int
) -> None:
    """The coordinator said yes, and a marker came before the commit was written; since v5 it has the next
    epoch."""
    machine, client, verifier = started(None)
    pending = client.ask(adding(5), version)
    assert end(machine, is_committed=False, epoch=epoch) == [ErrorCode.NONE]
    answer(machine, verifier)
    assert codes(pending.answer) == [ErrorCode.INVALID_TXN_STATE]
    assert stable_offset(machine.client()) == (-1, ErrorCode.NONE)


def test_two_commits_of_a_transaction_may_wait_for_the_same_answer() -> None:
    machine, client, verifier = started(None)
    other = machine.client()
    waiting = [client.ask(adding(5), LAST), other.ask(adding(6, 1), LAST)]
    answer(machine, verifier)
    assert [codes(pending.answer) for pending in waiting] == [[ErrorCode.NONE]] * 2
    end(machine)
    assert (committed(machine.client()), committed(machine.client(), partition=1)) == (5, 6)


def test_a_producer_of_an_older_epoch_is_fenced() -> None:
    machine, client, _ = started()
    end(machine, epoch=3, is_committed=False)
    assert send(client, adding(5, epoch=2)) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert send(client, adding(6, epoch=3)) == [ErrorCode.NONE]


def test_verification_can_be_switched_off_for_clients_that_add_partitions_themselves() -> None:
    _, client, verifier = started(ErrorCode.TRANSACTION_ABORTABLE)
    set_configs(client, BROKER, "", {"transaction.partition.verification.enable": "false"})
    assert send(client, adding(5), 4) == [ErrorCode.NONE]
    assert verifier.questions == []
    assert send(client, adding(5, producer_id=8), 5) == [ErrorCode.TRANSACTION_ABORTABLE]


# Stable offsets (rule 14 of design note 015)


@pytest.mark.parametrize("version", [version for version in versions(9) if 7 <= version < 10])
def test_who_wants_stable_offsets_asks_again_while_a_transaction_decides_faults_2_14(version: int) -> None:
    machine, client, _ = started()
    client.send(committing(3, partitions=(0, 1)), 9)
    send(client, adding(5))
    assert stable_offset(client, version=version) == (-1, UNSTABLE)
    assert stable_offset(client, 1, version) == (3, ErrorCode.NONE)
    assert committed(client) == 3, "others are told what was committed last"
    end(machine)
    assert stable_offset(client, version=version) == (5, ErrorCode.NONE)


@pytest.mark.parametrize("version", [7, 8, 9, 10])
def test_who_wants_all_stable_offsets_is_told_of_those_that_are_pending(version: int) -> None:
    machine, client, _ = started()
    client.send(committing(3), 9)
    send(client, adding(5, 1))

    def everything(*, require_stable: bool) -> dict[int, tuple[int, int]]:
        request = fetching(version=version, everything=True, require_stable=require_stable)
        answer = client.send(request, version)
        topics = answer.topics if version < 8 else answer.groups[0].topics
        return {
            told.partition_index: (told.committed_offset, told.error_code)
            for topic in topics
            for told in topic.partitions
        }

    assert everything(require_stable=True) == {0: (3, ErrorCode.NONE), 1: (-1, UNSTABLE)}
    assert everything(require_stable=False) == {0: (3, ErrorCode.NONE)}
    end(machine)
    assert everything(require_stable=True) == {0: (3, ErrorCode.NONE), 1: (5, ErrorCode.NONE)}


def test_a_group_that_has_nothing_but_pending_offsets_is_not_told_to_have_none_faults_2_14() -> None:
    machine, client, _ = started()
    send(client, adding(5))
    assert stable_offset(client) == (-1, UNSTABLE)
    machine.restart()
    assert stable_offset(machine.client()) == (-1, UNSTABLE)


def test_a_commit_and_its_end_are_answered_and_told_once_they_are_committed_themselves() -> None:
    machine, client, _ = started()
    client.send(committing(3), 9)
    flush_every_commit(machine)
    machine.hold(SyncLog)
    pending = client.ask(adding(5), LAST)
    assert pending.answer is None
    assert stable_offset(machine.client()) == (-1, UNSTABLE)
    machine.release(still_hold=True)
    assert codes(pending.answer) == [ErrorCode.NONE]
    marker = machine.client().ask(
        markers(Marker(7, 0, True, 0, 0), OFFSETS_TOPIC, partition_of(machine).partition)
    )
    assert marker.answer is None
    assert stable_offset(machine.client()) == (-1, UNSTABLE)
    machine.release()
    assert marker.answer.markers[0].topics[0].partitions[0].error_code == ErrorCode.NONE
    assert stable_offset(machine.client()) == (5, ErrorCode.NONE)


# Where this broker does not coordinate


def test_where_there_is_no_coordinator_a_commit_is_refused_and_nobody_is_asked() -> None:
    machine, client, verifier = started()
    lead_offsets(machine, leader=2, epoch=5, isr=(2,))
    assert send(client, adding(5)) == [ErrorCode.NOT_COORDINATOR]
    assert verifier.questions == []
    with pytest.raises(ApiError) as refused:
        machine.broker.coordinators.groups.end_transaction(0, Marker(7, 0, True, 0, 0), machine.now_ms)
    assert refused.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_the_answer_to_the_end_of_a_transaction_may_be_sent_when_it_is_committed() -> None:
    machine, client, _ = started()
    send(client, adding(5))
    flush_every_commit(machine)
    machine.hold(SyncLog)
    index = partition_of(machine).partition
    answer = machine.broker.coordinators.groups.end_transaction(
        index, Marker(7, 0, True, 0, 0), machine.now_ms
    )
    partition = machine.broker.partitions[partition_of(machine)]
    assert answer.reply is True
    assert partition.high_watermark < answer.after_offset == partition.log.log_end_offset
