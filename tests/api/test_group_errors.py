"""What wrong input gets from the group APIs: Kafka's codes."""

from typing import Any

import pytest
from tests.api.groups import broker, shard_of, stable
from tests.support.groups import (
    METADATA,
    G,
    beating,
    committing,
    consuming,
    deleting_offsets,
    describing,
    find,
    joining,
    leaving,
    syncing,
)

from ottla.base.errors import ErrorCode
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.join_group import JoinGroupRequestProtocol
from ottla.wire.messages.list_groups import ListGroupsRequest


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (joining(group=""), ErrorCode.INVALID_GROUP_ID),
        (joining(session_ms=5_999), ErrorCode.INVALID_SESSION_TIMEOUT),
        (joining(session_ms=1_800_001), ErrorCode.INVALID_SESSION_TIMEOUT),
        (joining("somebody"), ErrorCode.UNKNOWN_MEMBER_ID),
        (joining("somebody", instance="i"), ErrorCode.UNKNOWN_MEMBER_ID),
        (joining(protocols=[]), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (joining(protocol_type=""), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (joining(), ErrorCode.MEMBER_ID_REQUIRED),
        (syncing("m", 1, group=""), ErrorCode.INVALID_GROUP_ID),
        (syncing("m", 1), ErrorCode.UNKNOWN_MEMBER_ID),
        (syncing("m", 1, protocol_type=None), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (syncing("m", 1, protocol_name=None), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (beating("m", 1, group=""), ErrorCode.INVALID_GROUP_ID),
        (beating("m", 1), ErrorCode.UNKNOWN_MEMBER_ID),
        (leaving("m", group=""), ErrorCode.INVALID_GROUP_ID),
        (deleting_offsets("t", 0, group=""), ErrorCode.INVALID_GROUP_ID),
        (deleting_offsets("t", 0), ErrorCode.GROUP_ID_NOT_FOUND),
        (consuming("m", 0, group=""), ErrorCode.INVALID_REQUEST),
        (consuming("", 0), ErrorCode.INVALID_REQUEST),
        (consuming("m", -3), ErrorCode.INVALID_REQUEST),
        (consuming("m", -2), ErrorCode.INVALID_REQUEST),
        (consuming("m", 0, subscribed_topic_names=None), ErrorCode.INVALID_REQUEST),
        (consuming("m", 0, rebalance_timeout_ms=-1), ErrorCode.INVALID_REQUEST),
        (consuming("m", 0, server_assignor="best"), ErrorCode.UNSUPPORTED_ASSIGNOR),
        (consuming("m", 1), ErrorCode.GROUP_ID_NOT_FOUND),
        (consuming("m", 0, subscribed_topic_regex="("), ErrorCode.INVALID_REGULAR_EXPRESSION),
    ],
)
def test_what_is_wrong_without_a_group_is_told_and_makes_none_that_is_stored(
    request_: Any, code: ErrorCode
) -> None:
    machine, client, _ = broker()
    assert client.send(request_).error_code == code
    stored = [one for one in machine.broker.partitions.values() if one.topic_partition.topic.startswith("__")]
    assert all(one.log.log_end_offset == 0 for one in stored)


def test_a_refused_join_repeats_the_member_s_id() -> None:
    _, client, _ = broker()
    answer = client.send(joining("somebody", group=""))
    assert (answer.member_id, answer.generation_id) == ("somebody", -1)
    assert (answer.protocol_name, answer.leader) == (None, "")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (
            {"protocols": [JoinGroupRequestProtocol(name="sticky", metadata=METADATA)]},
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ),
    ],
)
def test_a_member_that_does_not_fit_the_others_is_inconsistent(
    change: dict[str, Any], code: ErrorCode
) -> None:
    machine, client, _ = broker()
    member = stable(machine, client)
    assert client.send(joining(**change)).error_code == code
    assert client.send(beating(member, 1)).error_code == ErrorCode.NONE


def test_a_group_that_is_full_takes_nobody_more() -> None:
    machine, client, _ = broker(group_max_size="1")
    stable(machine, client)
    assert client.send(joining()).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_when_stored_offsets_take_their_share_one_line_says_so_and_what_to_do(
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine, client, _ = broker(ottla_groups_max_bytes=str(1 << 20))
    codes = set[int]()
    for number in range(200):
        answer = client.send(committing(1, group=f"made-up-{number}", metadata="x" * 4000), 8)
        codes.add(answer.topics[0].partitions[0].error_code)
    assert codes == {ErrorCode.NONE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE}
    (line,) = [record.getMessage() for record in caplog.records if "refused" in record.getMessage()]
    assert line == (
        "new offsets of groups without members are refused, INVALID_COMMIT_OFFSET_SIZE: stored ones take "
        "half of the memory for groups; delete groups that nobody needs (ottla groups delete), or raise "
        "ottla.groups.max.bytes (1048576)"
    )
    stable(machine, client)


def test_a_consumer_group_that_is_full_takes_nobody_more() -> None:
    _, client, _ = broker(group_consumer_max_size="1")
    client.send(consuming("m", 0))
    assert client.send(consuming("n", 0)).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_protocol_other_than_the_one_agreed_on_is_inconsistent_in_a_sync() -> None:
    machine, client, _ = broker()
    member = stable(machine, client)
    for change in ({"protocol_type": "connect"}, {"protocol_name": "sticky"}):
        answer = client.send(syncing(member, 1, **change))
        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_members_of_the_new_protocol_are_fenced_by_their_epoch() -> None:
    _, client, _ = broker()
    client.send(consuming("m", 0))
    assert client.send(consuming("m", 7)).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert client.send(consuming("x", 1)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    client.send(consuming("s", 0, instance_id="i"))
    assert client.send(consuming("z", 0, instance_id="i")).error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    refused = client.send(consuming("z", 1, instance_id="i"))
    assert refused.error_code == ErrorCode.FENCED_INSTANCE_ID
    assert "instance id" in refused.error_message


def test_where_the_new_protocol_is_not_allowed_it_is_an_unsupported_version() -> None:
    machine, client, _ = broker(group_coordinator_rebalance_protocols="classic")
    assert client.send(consuming("m", 0)).error_code == ErrorCode.UNSUPPORTED_VERSION
    (group,) = client.send(describing(G)).groups
    assert group.error_code == ErrorCode.UNSUPPORTED_VERSION
    stable(machine, client)


def test_groups_without_an_id_are_not_described_or_deleted() -> None:
    _, client, _ = broker()
    (consumer,) = client.send(describing("")).groups
    assert consumer.error_code == ErrorCode.INVALID_GROUP_ID
    (classic,) = client.send(DescribeGroupsRequest(groups=[""]), 5).groups
    assert (classic.error_code, classic.group_state) == (ErrorCode.NONE, "Dead")
    (deleted,) = client.send(DeleteGroupsRequest(groups_names=[""])).results
    assert deleted.error_code == ErrorCode.INVALID_GROUP_ID


# Describe, list and delete


def test_a_consumer_group_is_dead_or_not_found_for_describe_groups() -> None:
    _, client, _ = broker()
    client.send(consuming("m", 0))
    (old,) = client.send(DescribeGroupsRequest(groups=[G]), 5).groups
    assert (old.error_code, old.group_state) == (ErrorCode.NONE, "Dead")
    (new,) = client.send(DescribeGroupsRequest(groups=[G]), 6).groups
    assert (new.error_code, new.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    assert new.error_message == f"Group {G} is not a classic group."


def test_groups_are_listed_from_all_shards_and_filtered_whatever_the_case() -> None:
    machine, client, _ = broker()
    stable(machine, client, "stable")
    client.send(consuming("m", 0, group="consumer"))
    client.send(committing(1, group="empty"), 9)
    shards = {
        machine.broker.coordinators.groups.partition_of(group) for group in ("stable", "consumer", "empty")
    }
    assert len(shards) > 1

    def listed(*states: str, types: tuple[str, ...] = ()) -> list[str]:
        request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
        return sorted(one.group_id for one in client.send(request).groups)

    assert listed() == ["consumer", "empty", "stable"]
    assert listed("sTaBlE") == ["consumer", "stable"]
    assert listed("EMPTY") == ["empty"]
    assert listed("empty", "stable", types=("classic",)) == ["empty", "stable"]
    assert listed(types=("CONSUMER",)) == ["consumer"]
    assert listed("Dead") == []
    assert listed("no such state") == []
    assert listed(types=("no such type",)) == []


def test_groups_of_several_shards_are_deleted_at_once_each_with_its_own_code() -> None:
    machine, client, _ = broker()
    names = [f"group {number}" for number in range(8)]
    for name in names:
        client.send(committing(1, group=name), 9)
    stable(machine, client, "live")
    answer = client.send(DeleteGroupsRequest(groups_names=[*names, "live", "none", names[0]]))
    assert [(one.group_id, one.error_code) for one in answer.results] == [
        *((name, ErrorCode.NONE) for name in names),
        ("live", ErrorCode.NON_EMPTY_GROUP),
        ("none", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    (left,) = client.send(ListGroupsRequest()).groups
    assert left.group_id == "live"


def test_nothing_of_a_group_is_here_if_another_broker_coordinates_it() -> None:
    machine, client, _ = broker()
    stable(machine, client)
    machine.broker.coordinators.groups.runtime.unload(
        machine.broker.coordinators.groups.partition_of(G).partition
    )
    for request in (joining(), syncing("m", 1), beating("m", 1), leaving("m"), consuming("m", 0)):
        assert client.send(request).error_code == ErrorCode.NOT_COORDINATOR
    assert client.send(deleting_offsets("t", 0)).error_code == ErrorCode.NOT_COORDINATOR
    assert client.send(DescribeGroupsRequest(groups=[G]), 5).groups[0].error_code == ErrorCode.NOT_COORDINATOR
    assert client.send(describing(G)).groups[0].error_code == ErrorCode.NOT_COORDINATOR
    (deleted,) = client.send(DeleteGroupsRequest(groups_names=[G])).results
    assert deleted.error_code == ErrorCode.NOT_COORDINATOR
    assert client.send(ListGroupsRequest()).groups == []


def test_a_new_member_s_id_is_made_of_its_client_id_and_something_random() -> None:
    machine, client, _ = broker()
    first, second = (client.send(joining()).member_id for _ in range(2))
    assert first.startswith("a client-")
    assert second.startswith("a client-")
    assert first != second
    assert client.send(consuming("", 0), 0).member_id not in ("", None)
    assert shard_of(machine) is not None
    assert client.send(find(G), 2).node_id == 1
