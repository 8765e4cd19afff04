"""Short ways to say the requests of groups, in any version, to a whole broker; and each of them in each."""

from typing import Any

import pytest
from tests.api.asking import create
from tests.api.harness import Client, Machine

from ottla.api.table import TABLE
from ottla.base.errors import ErrorCode
from ottla.base.ids import OFFSETS_TOPIC, ZERO_UUID
from ottla.broker.broker import Broker
from ottla.controller import znodes
from ottla.controller.keeper import Create, Put
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

G = "readers"
ON_GROUP = 0b1101_0100_1000
"""READ (3), DELETE (6), DESCRIBE (8), DESCRIBE_CONFIGS (10), ALTER_CONFIGS (11)."""
UNKNOWN_OPERATIONS = -(2**31)
METADATA = b"\x00\x00\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x00"
"""A subscription to topic t, version 0."""


def broker(**properties: str) -> tuple[Machine, Client, bytes]:
    """A broker with a topic `t` of two partitions and few shards; a client; the topic's id."""
    given = {key.replace("_", "."): properties[key] for key in properties}
    machine = Machine({"offsets.topic.num.partitions": "5", **given})
    client = machine.client()
    topic_id = create(client, "t", partitions=2)
    client.send(find(G), 2)
    return machine, client, topic_id


def find(*keys: str, key_type: int = 0, version: int = 2) -> FindCoordinatorRequest:
    if version < 4:
        return FindCoordinatorRequest(key=keys[0], key_type=key_type)
    return FindCoordinatorRequest(coordinator_keys=list(keys), key_type=key_type)


def joining(
    member: str = "", *, group: str = G, instance: str | None = None, session_ms: int = 10_000, **more: Any
) -> JoinGroupRequest:
    fields = {
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol(name="range", metadata=METADATA)],
        "rebalance_timeout_ms": 60_000,
        **more,
    }
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        member_id=member,
        group_instance_id=instance,
        **fields,
    )


def syncing(
    member: str, generation: int, shares: dict[str, bytes] | None = None, *, group: str = G, **more: Any
) -> SyncGroupRequest:
    fields = {"protocol_type": "consumer", "protocol_name": "range", **more}
    assignments = [
        SyncGroupRequestAssignment(member_id=of, assignment=what) for of, what in (shares or {}).items()
    ]
    return SyncGroupRequest(
        group_id=group, generation_id=generation, member_id=member, assignments=assignments, **fields
    )


def beating(member: str, generation: int, *, group: str = G, instance: str | None = None) -> HeartbeatRequest:
    return HeartbeatRequest(
        group_id=group, generation_id=generation, member_id=member, group_instance_id=instance
    )


def leaving(*members: str, group: str = G, version: int = 5) -> LeaveGroupRequest:
    if version < 3:
        return LeaveGroupRequest(group_id=group, member_id=members[0])
    return LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=one) for one in members])


def committing(
    offset: int,
    *,
    group: str = G,
    member: str = "",
    epoch: int = -1,
    topic: str | bytes = "t",
    partitions: tuple[int, ...] = (0,),
    metadata: str | None = "",
    **more: Any,
) -> OffsetCommitRequest:
    """A topic in bytes is an id."""
    name, topic_id = ("", topic) if isinstance(topic, bytes) else (topic, ZERO_UUID)
    listed = [
        OffsetCommitRequestPartition(
            partition_index=index,
            committed_offset=offset,
            committed_leader_epoch=4,
            committed_metadata=metadata,
        )
        for index in partitions
    ]
    topics = [OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=listed)]
    return OffsetCommitRequest(
        group_id=group, generation_id_or_member_epoch=epoch, member_id=member, topics=topics, **more
    )


def codes(answer: Any) -> list[ErrorCode]:
    """The codes of all partitions of a commit's answer."""
    return [ErrorCode(one.error_code) for topic in answer.topics for one in topic.partitions]


def fetching(
    *partitions: int,
    group: str = G,
    topic: str | bytes = "t",
    version: int = 5,
    member: str | None = None,
    epoch: int = -1,
    everything: bool = False,
    **more: Any,
) -> OffsetFetchRequest:
    wanted = list(partitions or (0,))
    if version < 8:
        assert isinstance(topic, str)
        named = None if everything else [OffsetFetchRequestTopic(name=topic, partition_indexes=wanted)]
        return OffsetFetchRequest(group_id=group, topics=named, **more)
    name, topic_id = ("", topic) if isinstance(topic, bytes) else (topic, ZERO_UUID)
    topics = [OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=wanted)]
    asked = OffsetFetchRequestGroup(
        group_id=group, member_id=member, member_epoch=epoch, topics=None if everything else topics
    )
    return OffsetFetchRequest(groups=[asked], **more)


def committed(client: Client, group: str = G, partition: int = 0, topic: str = "t") -> int:
    answer = client.send(fetching(partition, group=group, topic=topic), 5)
    found: int = answer.topics[0].partitions[0].committed_offset
    return found


def consuming(
    member: str, epoch: int, owned: list[TopicPartitions] | None = None, *, group: str = G, **more: Any
) -> ConsumerGroupHeartbeatRequest:
    if epoch == 0:
        more = {"subscribed_topic_names": ["t"], "rebalance_timeout_ms": 60_000, **more}
        owned = [] if owned is None else owned
    return ConsumerGroupHeartbeatRequest(
        group_id=group, member_id=member, member_epoch=epoch, topic_partitions=owned, **more
    )


def deleting_offsets(topic: str, *partitions: int, group: str = G) -> OffsetDeleteRequest:
    listed = [OffsetDeleteRequestPartition(partition_index=index) for index in partitions]
    return OffsetDeleteRequest(
        group_id=group, topics=[OffsetDeleteRequestTopic(name=topic, partitions=listed)]
    )


def describing(*groups: str) -> ConsumerGroupDescribeRequest:
    return ConsumerGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=False)


def stable(machine: Machine, client: Client, group: str = G) -> str:
    """A classic group with one member, in generation 1; its id."""
    member: str = client.send(joining(group=group)).member_id
    joined = client.ask(joining(member, group=group))
    machine.pass_time(3_000)
    assert joined.answer.generation_id == 1
    synced = client.send(syncing(member, 1, {member: b"all of it"}, group=group))
    assert synced.assignment == b"all of it"
    return member


def flush_every_commit(machine: Machine) -> None:
    """From now on the offsets topic is committed only when it is synced."""
    path = znodes.topic_config_path(OFFSETS_TOPIC)
    known = machine.keeper.nodes.get(path)
    configs = {**machine.broker.image.topic_config(OFFSETS_TOPIC), "flush.messages": "1"}
    data = znodes.config_node(configs)
    machine.write(Create(path, data) if known is None else Put(path, data))


def lead_offsets(machine: Machine, *, leader: int, epoch: int, isr: tuple[int, ...] = (1,)) -> None:
    machine.give_up_the_seat()
    known = machine.broker.image.topics[OFFSETS_TOPIC]
    states = dict.fromkeys(known.assignment, (leader, epoch, isr))
    machine.write(Put(znodes.state_path(OFFSETS_TOPIC), znodes.state_node(1, states)))


def shard_of(machine: Machine, group: str = G) -> Any:
    the_broker: Broker = machine.broker
    return the_broker.coordinators.groups.shard_of(group)


# Every version of every group API


def versions(key: int) -> list[int]:
    low, high = TABLE[key].versions
    return list(range(low, high + 1))


@pytest.mark.parametrize("version", versions(11))
def test_a_classic_group_lives_its_whole_life_in_every_version_of_join(version: int) -> None:
    machine, client, _ = broker()
    sync, beat, leave = (min(version, TABLE[key].versions[1]) for key in (14, 12, 13))
    member = ""
    if version >= 4:
        refused = client.send(joining(), version)
        assert refused.error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert refused.protocol_name == (None if version >= 7 else "")
        member = refused.member_id
        assert member.startswith("a client-")
    pending = client.ask(joining(member), version)
    assert pending.answer is None
    machine.pass_time(3_000)
    joined = pending.answer
    assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 1, "range")
    assert joined.leader == joined.member_id
    assert [(one.member_id, one.metadata) for one in joined.members] == [(joined.member_id, METADATA)]
    assert joined.protocol_type == ("consumer" if version >= 7 else None)
    member = joined.member_id
    synced = client.send(syncing(member, 1, {member: b"mine"}), sync)
    assert (synced.error_code, synced.assignment) == (0, b"mine")
    assert client.send(beating(member, 1), beat).error_code == ErrorCode.NONE
    left = client.send(leaving(member, version=leave), leave)
    assert left.error_code == ErrorCode.NONE
    assert [one.error_code for one in left.members] == ([0] if leave >= 3 else [])


@pytest.mark.parametrize("version", versions(14))
def test_sync_in_every_version(version: int) -> None:
    machine, client, _ = broker()
    member = stable(machine, client)
    answer = client.send(syncing(member, 1), version)
    assert (answer.error_code, answer.assignment) == (ErrorCode.NONE, b"all of it")
    assert answer.protocol_name == ("range" if version >= 5 else None)
    assert client.send(syncing("nobody", 1), version).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert client.send(syncing(member, 7), version).error_code == ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize("version", versions(12))
def test_heartbeat_in_every_version(version: int) -> None:
    machine, client, _ = broker()
    member = stable(machine, client)
    for who, generation, code in (
        (member, 1, ErrorCode.NONE),
        ("nobody", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        (member, 2, ErrorCode.ILLEGAL_GENERATION),
    ):
        assert client.send(beating(who, generation), version).error_code == code


@pytest.mark.parametrize("version", versions(13))
def test_leave_in_every_version(version: int) -> None:
    machine, client, _ = broker()
    member = stable(machine, client)
    unknown = client.send(leaving("nobody", version=version), version)
    absent = client.send(leaving("nobody", group="none", version=version), version)
    for answer in (unknown, absent):
        if version < 3:
            assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        else:
            assert answer.error_code == ErrorCode.NONE
            (one,) = answer.members
            assert (one.member_id, one.error_code) == ("nobody", ErrorCode.UNKNOWN_MEMBER_ID)
    assert client.send(leaving(member, version=version), version).error_code == ErrorCode.NONE
    assert shard_of(machine).groups[G].is_empty


@pytest.mark.parametrize("version", versions(15))
def test_describe_groups_in_every_version(version: int) -> None:
    machine, client, _ = broker()
    member = stable(machine, client)
    found, missing = client.send(DescribeGroupsRequest(groups=[G, "none"]), version).groups
    assert (found.error_code, found.group_state, found.protocol_type) == (0, "Stable", "consumer")
    assert found.protocol_data == "range"
    assert [(one.member_id, one.client_id, one.member_assignment) for one in found.members] == [
        (member, "a client", b"all of it")
    ]
    assert missing.group_state == "Dead"
    assert missing.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.NONE)
    assert missing.error_message == ("There is no group none." if version >= 6 else None)


@pytest.mark.parametrize("version", versions(15))
def test_whoever_describes_a_classic_group_may_ask_what_it_may_do(version: int) -> None:
    machine, client, _ = broker()
    stable(machine, client)
    for wanted in (True, False) if version >= 3 else (False,):
        asked = DescribeGroupsRequest(groups=[G, "none"], include_authorized_operations=wanted)
        found, missing = client.send(asked, version).groups
        assert found.authorized_operations == (ON_GROUP if wanted else UNKNOWN_OPERATIONS)
        says = ON_GROUP if wanted and version < 6 else UNKNOWN_OPERATIONS
        assert missing.authorized_operations == says, "which is no error before v6"


@pytest.mark.parametrize("wanted", [True, False])
def test_whoever_describes_a_consumer_group_may_ask_what_it_may_do(wanted: bool) -> None:
    _, client, _ = broker()
    client.send(consuming("m", 0))
    asked = ConsumerGroupDescribeRequest(group_ids=[G, "none"], include_authorized_operations=wanted)
    found, missing = client.send(asked).groups
    assert found.authorized_operations == (ON_GROUP if wanted else UNKNOWN_OPERATIONS)
    assert missing.authorized_operations == UNKNOWN_OPERATIONS


@pytest.mark.parametrize("version", versions(16))
def test_list_groups_in_every_version(version: int) -> None:
    machine, client, _ = broker()
    stable(machine, client)
    (one,) = client.send(ListGroupsRequest(), version).groups
    assert (one.group_id, one.protocol_type) == (G, "consumer")
    assert one.group_state == ("Stable" if version >= 4 else "")
    assert one.group_type == ("Classic" if version >= 5 else "")


@pytest.mark.parametrize("version", versions(42))
def test_delete_groups_in_every_version(version: int) -> None:
    _, client, _ = broker()
    client.send(committing(1), 2)
    answer = client.send(DeleteGroupsRequest(groups_names=[G, "none"]), version)
    assert [(one.group_id, one.error_code) for one in answer.results] == [
        (G, ErrorCode.NONE),
        ("none", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert committed(client) == -1


@pytest.mark.parametrize("version", versions(68))
def test_a_consumer_group_lives_its_whole_life_in_every_version(version: int) -> None:
    _, client, topic_id = broker()
    member = "" if version == 0 else "made by the client"
    first = client.send(consuming(member, 0), version)
    assert (first.error_code, first.member_epoch, first.heartbeat_interval_ms) == (0, 1, 5_000)
    assert first.member_id == member or version == 0
    assert [(one.topic_id, one.partitions) for one in first.assignment.topic_partitions] == [
        (topic_id, [0, 1])
    ]
    owned = [TopicPartitions(topic_id=topic_id, partitions=[0, 1])]
    assert client.send(consuming(first.member_id, 1, owned), version).assignment is None
    left = client.send(consuming(first.member_id, -1), version)
    assert (left.error_code, left.member_epoch) == (0, -1)


@pytest.mark.parametrize("version", versions(69))
def test_consumer_group_describe_in_every_version(version: int) -> None:
    machine, client, topic_id = broker()
    stable(machine, client, "classic")
    client.send(consuming("m", 0))
    found, classic, none = client.send(describing(G, "classic", "none"), version).groups
    assert (found.error_code, found.group_state, found.group_epoch) == (0, "Stable", 1)
    (member,) = found.members
    (assigned,) = member.assignment.topic_partitions
    assert (assigned.topic_id, assigned.topic_name, assigned.partitions) == (topic_id, "t", [0, 1])
    assert member.member_type == (1 if version >= 1 else -1)
    for missing in (classic, none):
        assert missing.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert missing.members == []
