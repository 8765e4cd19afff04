"""DeleteRecords: everything before an offset goes. And OffsetForLeaderEpoch: where an epoch ended."""

import pytest
from tests.api.asking import batch, create, fetch, lead, produce, to, values
from tests.api.harness import Client, Machine
from tests.api.test_fetch import log_of

from ottla.base.errors import ErrorCode
from ottla.broker.effects import SyncLog
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)


def delete(client: Client, offset: int, topic: str = "t", partition: int = 0) -> tuple[int, int]:
    one = DeleteRecordsPartition(partition_index=partition, offset=offset)
    topics = [DeleteRecordsTopic(name=topic, partitions=[one])]
    answer = client.send(DeleteRecordsRequest(topics=topics, timeout_ms=1)).topics[0].partitions[0]
    return answer.error_code, answer.low_watermark


@pytest.fixture
def machine() -> Machine:
    machine = Machine()
    client = machine.client()
    create(client, "t")
    for value in "abcd":
        produce(client, "t", batch(value))
    return machine


def test_records_before_an_offset_are_gone(machine: Machine) -> None:
    client = machine.client()
    assert delete(client, 2) == (ErrorCode.NONE, 2)
    assert fetch(client, "t", 1).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    part = fetch(client, "t", 2)
    assert (values(part), part.log_start_offset) == (["c", "d"], 2)
    assert delete(client, 1) == (ErrorCode.NONE, 2), "what is gone does not come back"


def test_minus_one_is_everything_that_is_committed(machine: Machine) -> None:
    client = machine.client()
    assert delete(client, -1) == (ErrorCode.NONE, 4)
    assert values(fetch(client, "t", 4)) == []
    assert produce(client, "t").base_offset == 4


@pytest.mark.parametrize("offset", [5, -2, 1 << 40])
def test_an_offset_that_is_not_there(machine: Machine, offset: int) -> None:
    assert delete(machine.client(), offset) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


def test_what_is_not_committed_cannot_be_deleted() -> None:
    machine = Machine()
    client = machine.client()
    create(client, "t", flush_messages="1")
    machine.hold(SyncLog)
    client.ask(to("t", batch("a")), 12)
    assert delete(machine.client(), 1) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert delete(machine.client(), -1) == (ErrorCode.NONE, 0)


def test_errors(machine: Machine) -> None:
    client = machine.client()
    assert delete(client, 0, topic="nowhere") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert delete(client, 0, partition=7) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    create(client, "compacted", cleanup_policy="compact")
    assert delete(client, 0, topic="compacted") == (ErrorCode.POLICY_VIOLATION, -1)
    create(client, "both", cleanup_policy="compact,delete")
    assert delete(client, 0, topic="both") == (ErrorCode.NONE, 0)
    create(client, "__share_group_state")
    assert delete(client, 0, topic="__share_group_state") == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)
    lead(machine, "t", leader=2, epoch=1)
    assert delete(client, 0) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


def test_a_deleted_head_stays_deleted_after_a_restart(machine: Machine) -> None:
    delete(machine.client(), 3)
    machine.restart()
    assert log_of(machine).log_start_offset == 3
    assert values(fetch(machine.client(), "t", 3)) == ["d"]


# OffsetForLeaderEpoch


def end_of(
    client: Client, epoch: int, *, current: int = -1, topic: str = "t", version: int = 4
) -> tuple[int, int, int]:
    one = OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic=topic, partitions=[one])])
    answer = client.send(request, version).topics[0].partitions[0]
    return answer.error_code, answer.leader_epoch, answer.end_offset


@pytest.mark.parametrize("version", [2, 3, 4])
def test_the_end_of_an_epoch_is_where_the_next_began(machine: Machine, version: int) -> None:
    client = machine.client()
    lead(machine, "t", leader=1, epoch=3)
    produce(client, "t", batch("e"))
    assert end_of(client, 0, version=version) == (ErrorCode.NONE, 0, 4)
    assert end_of(client, 2, version=version) == (ErrorCode.NONE, 0, 4), "the largest epoch not above it"
    assert end_of(client, 3, version=version) == (ErrorCode.NONE, 3, 5)
    assert end_of(client, 4, version=version) == (ErrorCode.NONE, -1, -1), "the future"
    assert end_of(client, -1, version=version) == (ErrorCode.NONE, -1, -1)


def test_a_caller_who_knows_another_epoch_is_told_so(machine: Machine) -> None:
    client = machine.client()
    lead(machine, "t", leader=1, epoch=3)
    assert end_of(client, 0, current=2) == (ErrorCode.FENCED_LEADER_EPOCH, -1, -1)
    assert end_of(client, 0, current=4) == (ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)
    assert end_of(client, 0, current=3)[0] == ErrorCode.NONE
    assert end_of(client, 0, topic="nowhere") == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
    lead(machine, "t", leader=2, epoch=4)
    assert end_of(client, 0) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1)
