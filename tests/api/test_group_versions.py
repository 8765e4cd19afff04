"""Every version of every group API."""

import pytest
from tests.api.groups import broker, committed, shard_of, stable, versions
from tests.support.groups import (
    METADATA,
    G,
    beating,
    committing,
    consuming,
    describing,
    joining,
    leaving,
    syncing,
)

from ottla.api.table import TABLE
from ottla.base.errors import ErrorCode
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.consumer_group_heartbeat import TopicPartitions
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.list_groups import ListGroupsRequest

ON_GROUP = 0b1101_0100_1000
"""READ (3), DELETE (6), DESCRIBE (8), DESCRIBE_CONFIGS (10), ALTER_CONFIGS (11)."""
UNKNOWN_OPERATIONS = -(2**31)


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
