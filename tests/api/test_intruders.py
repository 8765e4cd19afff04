"""What somebody tries who is let in and wants more, or wants not to be seen."""

import json
import logging

import pytest
from tests.api.rights import Guarded

from ottla.broker.long_work import Slices
from ottla.security.resources import Operation, ResourceType
from ottla.wire.messages.delete_groups import DeleteGroupsRequest

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
