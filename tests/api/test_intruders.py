"""What somebody tries who is let in and wants more, or wants not to be seen."""

import json
import logging

import pytest
from tests.api.asking import batch, produce
from tests.api.rights import Guarded

from ottla.base.errors import ErrorCode
from ottla.broker.long_work import Slices
from ottla.security.resources import Operation, Permission, ResourceType
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic

MANY = [f"not-there-{at}" for at in range(2_000)]


def delete_and_hang_up(guarded: Guarded, user: str) -> None:
    """A request that is finished even if its client is gone, and is so before it comes to the group."""
    client, machine = guarded.user(user), guarded.machine
    machine.hold(Slices)
    pending = client.ask(DeleteGroupsRequest(groups_names=[*MANY, "g"]))
    assert pending.answer is None, "it takes long enough to hang up meanwhile"
    client.close()
    machine.release()


def group_ids(guarded: Guarded) -> set[str]:
    return {
        group.group_id
        for _, shard in guarded.machine.broker.coordinators.groups.shards()
        for group in shard.listed()
    }


def test_who_hangs_up_is_not_taken_for_anonymous_while_the_request_is_finished() -> None:
    guarded = Guarded(super_users="User:admin;User:ANONYMOUS")
    guarded.live()
    delete_and_hang_up(guarded, "mallory")
    assert group_ids(guarded) == {"g"}


def test_the_audit_log_names_who_hung_up_before_the_request_was_finished(
    caplog: pytest.LogCaptureFixture,
) -> None:
    guarded = Guarded()
    guarded.live()
    guarded.allow(Operation.DELETE, ResourceType.GROUP, "*")
    with caplog.at_level(logging.INFO, logger="ottla.audit"):
        delete_and_hang_up(guarded, "alice")
    assert group_ids(guarded) == set()
    lines = [json.loads(record.message) for record in caplog.records if record.name == "ottla.audit"]
    assert {(line["principal"], line["allowed"]) for line in lines} == {("User:alice", True)}
    assert [line["on"]["more groups_names"] for line in lines] == [[str(len(MANY) + 1 - 100)]]


def test_a_fetch_that_waits_gives_nothing_once_its_topic_may_not_be_read_any_more() -> None:
    guarded = Guarded()
    guarded.allow(Operation.READ, ResourceType.TOPIC)
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000)
    request = FetchRequest(
        max_wait_ms=60_000, min_bytes=1, topics=[FetchTopic(topic="t", partitions=[partition])]
    )
    fetches = [guarded.user("alice").ask(request, version) for version in (4, 12)]
    assert [pending.answer for pending in fetches] == [None, None]
    guarded.allow(Operation.READ, ResourceType.TOPIC, permission=Permission.DENY)
    guarded.machine.pass_time(1_000)
    produce(guarded.admin, "t", batch("a secret"))
    for pending in fetches:
        (answer,) = pending.answer.responses[0].partitions
        assert (answer.error_code, answer.records) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, b"")


def test_whether_a_topic_is_there_cannot_be_learned_by_a_regular_expression() -> None:
    guarded = Guarded()
    guarded.live()
    guarded.allow(Operation.READ, ResourceType.GROUP, "probe", is_prefix=True)
    alice, described = guarded.user("alice"), []
    for group_id, regex in (("probe-1", "t"), ("probe-2", "u")):
        joined = alice.send(
            ConsumerGroupHeartbeatRequest(
                group_id=group_id, member_id="m", member_epoch=0, rebalance_timeout_ms=1_000,
                subscribed_topic_regex=regex,
            )
        )  # fmt: skip
        request = ConsumerGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=False)
        (group,) = alice.send(request).groups
        assigned = [(member.assignment, member.target_assignment) for member in group.members]
        described.append((joined, group.error_code, group.group_epoch, group.group_state, assigned))
    assert described[0] == described[1]
