"""Groups whose partition of __consumer_offsets is on a disk that fails: refused, never half stored."""

import errno

from tests.api.groups import broker as with_groups
from tests.api.harness import Machine
from tests.support.groups import METADATA, G, find

from ottla.base.errors import ErrorCode
from ottla.base.ids import OFFSETS_TOPIC
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_fetch import OffsetFetchRequest


def two_disks() -> tuple[Machine, str]:
    """A broker with a group whose offsets are in the directory that is answered."""
    machine, _, _ = with_groups(log_dirs="/a,/b")
    return machine, machine.broker.store.directory_of(machine.broker.coordinators.groups.partition_of(G))


def commit(offset: int) -> OffsetCommitRequest:
    one = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata=None)
    topics = [OffsetCommitRequestTopic(name="t", partitions=[one])]
    return OffsetCommitRequest(group_id=G, generation_id_or_member_epoch=-1, member_id="", topics=topics)


def test_a_commit_that_the_disk_refuses_is_refused_and_the_one_before_it_stands() -> None:
    machine, directory = two_disks()
    client = machine.client()
    assert client.send(commit(5), 7).topics[0].partitions[0].error_code == ErrorCode.NONE
    machine.disk.fail("append", errno.EIO, f"{directory}/{OFFSETS_TOPIC}")
    assert client.send(commit(6), 7).topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
    assert machine.broker.store.offline.keys() == {directory}
    assert client.send(find(G), 2).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert client.send(commit(7), 7).topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
    machine.pass_time(60_000)
    machine.restart()
    found = machine.client().send(OffsetFetchRequest(group_id=G, topics=None), 5)
    assert found.topics[0].partitions[0].committed_offset == 5


def test_a_member_that_waits_for_others_is_refused_when_the_disk_of_its_group_fails() -> None:
    machine, directory = two_disks()
    client = machine.client()
    asked = JoinGroupRequest(
        group_id=G,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=METADATA)],
    )
    pending = client.ask(asked, 3)
    assert pending.answer is None, "it waits for others to join"
    machine.broker.on_directory_failed(directory, "it burns", machine.now_ms)
    machine.carry_out()
    assert machine.halted == []
    assert pending.answer.error_code == ErrorCode.NOT_COORDINATOR
    assert machine.broker.store.offline.keys() == {directory}
