"""An OffsetCommit of one partition: the broker says, writes and counts what it does for those of many."""

import errno
import gc
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.api.asking import ask_for_two_in_sync, create
from tests.api.groups import broker, committed, flush_every_commit, lead_offsets, shard_of, stable
from tests.api.harness import OTHER_BROKER, Client, Machine
from tests.api.rights import AUTHORIZER
from tests.api.test_client_quotas import entry, set_quotas
from tests.support.groups import G, codes, committing, consuming
from tests.support.metrics import metrics_of

from ottla.api import dispatch, single_commit
from ottla.api.call import CloseConnection
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import OFFSETS_TOPIC, TopicPartition
from ottla.broker.effects import SyncLog
from ottla.broker.operations import Tried
from ottla.controller import znodes
from ottla.controller.keeper import Delete, Put
from ottla.group.shard import GroupShard
from ottla.wire.messages.offset_commit import OffsetCommitRequest
from ottla.wire.single_commit import READERS

CLASSIC, MODERN = "classic", "modern"
WHO = [(G, "", -1), (CLASSIC, "its own", 1), (MODERN, "m", 1)]
OTHERS = [
    ("", "", -1),
    (CLASSIC, "", -1),
    (CLASSIC, "its own", 2),
    (MODERN, "m", 3),
    (G, "m", 1),
    ("new", "", -1),
]
PLAIN = {
    "version": st.sampled_from(sorted(READERS)),
    "who": st.sampled_from(WHO),
    "topic": st.sampled_from(["t", "other"]),
    "partitions": st.sampled_from([(0,), (1,)]),
    "offset": st.integers(0, 3),
    "metadata": st.sampled_from(["", "", None, "note", "é" * 8]),
    "retention_ms": st.just(-1),
    "instance": st.none(),
}
STRANGE = {
    "who": st.sampled_from(WHO + OTHERS),
    "topic": st.sampled_from(["t", "other", "none"]),
    "partitions": st.sampled_from([(0,), (7,), (0, 1), ()]),
    "metadata": st.sampled_from(["", "x" * 9]),
    "retention_ms": st.sampled_from([-1, 0, 60_000, -2]),
    "instance": st.sampled_from([None, "i"]),
}
COMMITS, STRANGE_COMMITS = st.fixed_dictionaries(PLAIN), st.fixed_dictionaries(PLAIN | STRANGE)
EVENTS = st.sampled_from([
    "flush", "another broker leads", "the topic goes", "two in sync", "a disk fails", "memory is short",
    "another keeps it too", "a topic is back",
])  # fmt: skip
STEPS = st.one_of(COMMITS, COMMITS, COMMITS, COMMITS, STRANGE_COMMITS, EVENTS)


def run(steps: list[Any]) -> Any:
    """What a broker answers to all of it; what it has counted, written and kept in memory then."""
    machine, client, topic_id = broker(offset_metadata_max_bytes="8", log_dirs="/a,/b")
    ids = {"t": topic_id, "other": create(client, "other", 2)}
    members = {CLASSIC: stable(machine, client, CLASSIC)}
    client.send(consuming("m", 0, group=MODERN))
    machine.hold(SyncLog)
    answers = []
    for step in steps:
        if isinstance(step, str):
            happen(machine, step)
            continue
        answers.append(ask(machine, machine.client(), request_of(step, ids, members), step["version"]))
    shard = machine.broker.coordinators.groups.runtime.shards
    kept = {index: (vars_of(loaded.shard), loaded.timers.deadlines) for index, loaded in shard.items()}
    files = {path: bytes(node.data) for path, node in machine.disk.nodes.items() if path.endswith(".log")}
    return answers, metrics_of(machine.broker, machine.now_ms), files, kept, machine.broker.next_deadline_ms()


def vars_of(shard: GroupShard) -> Any:
    offsets = {group: dict(shard.offsets.newest(group)) for group in shard.groups}
    return offsets, shard.held_bytes, shard.stored_bytes


def request_of(step: dict[str, Any], ids: dict[str, bytes], members: dict[str, str]) -> OffsetCommitRequest:
    version, topic, (group, member, epoch) = step["version"], step["topic"], step["who"]
    more = {"retention_time_ms": step["retention_ms"]} if version < 5 else {}
    return committing(
        step["offset"],
        group=group,
        member=members[CLASSIC] if member == "its own" else member,
        epoch=epoch,
        topic=ids.get(topic, b"u" * 16) if version >= 10 else topic,
        partitions=step["partitions"],
        metadata=step["metadata"],
        group_instance_id=step["instance"] if version >= 7 else None,
        **more,
    )


def happen(machine: Machine, event: str) -> None:
    if event == "flush":
        flush_every_commit(machine)
    elif event == "another broker leads":
        lead_offsets(machine, leader=2, epoch=1)
    elif event == "another keeps it too":
        share_offsets(machine)
    elif event == "two in sync":
        ask_for_two_in_sync(machine, OFFSETS_TOPIC)
    elif event == "a disk fails":
        fail_commits(machine)
    elif event == "memory is short":
        groups = machine.broker.coordinators.groups
        groups.config = replace(groups.config, memory_bytes_max=1)
    elif event == "a topic is back":
        if "other" not in machine.broker.image.topics:
            create(machine.client(), "other", 2)
    elif "other" in machine.broker.image.topics:
        machine.write(Delete(znodes.topic_path("other")))


def share_offsets(machine: Machine) -> None:
    """From now on another broker keeps the offsets topic too, and is in sync."""
    machine.give_up_the_seat()
    topic = machine.broker.image.topics[OFFSETS_TOPIC]
    replicas = (machine.broker.id, OTHER_BROKER)
    states = dict.fromkeys(topic.assignment, (machine.broker.id, 1, replicas))
    machine.write(
        Put(znodes.topic_path(OFFSETS_TOPIC), znodes.topic_node(topic.id, dict.fromkeys(states, replicas))),
        Put(znodes.state_path(OFFSETS_TOPIC), znodes.state_node(1, states)),
    )


def fail_commits(machine: Machine) -> None:
    machine.disk.fail("append", errno.EIO, OFFSETS_TOPIC)


def ask(machine: Machine, client: Client, request: OffsetCommitRequest, version: int) -> Any:
    try:
        pending = client.ask(request, version)
    except CloseConnection as closed:
        return str(closed)
    at_once = pending.answer
    machine.release(still_hold=True)
    return at_once, pending.answer


@given(st.lists(STEPS, min_size=1, max_size=8))
@settings(max_examples=200, deadline=None)
def test_what_is_answered_written_and_counted_is_the_same_the_long_way(steps: list[Any]) -> None:
    outcome = run(steps)
    with patch.dict(READERS, clear=True):
        assert run(steps) == outcome


@pytest.mark.parametrize("version", sorted(READERS))
def test_one_offset_takes_the_short_way(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    machine, client, topic_id = broker()
    member = stable(machine, client)
    request = committing(5, member=member, epoch=1, topic=topic_id if version >= 10 else "t")
    with monkeypatch.context() as patched:
        patched.setattr(dispatch.Exchange, "answer_at_once", lambda *_: pytest.fail("it took the long way"))
        assert codes(client.send(request, version)) == [ErrorCode.NONE]
    assert committed(client) == 5
    machine.restart()
    assert committed(machine.client()) == 5


@pytest.mark.parametrize("reason", ["another broker keeps it too", "an authorizer", "a quota", "doubt"])
def test_what_others_have_a_say_in_takes_the_usual_way(reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"authorizer_class_name": AUTHORIZER, "super_users": "User:ANONYMOUS"}
    machine, client, _ = broker(**given if reason == "an authorizer" else {})
    if reason == "another broker keeps it too":
        share_offsets(machine)
    elif reason == "a quota":
        set_quotas(client, entry({"request_percentage": 100.0}, user=None))
    elif reason == "doubt":
        machine.broker.proofs.in_doubt.add(TopicPartition("t", 0))
    ways: list[Any] = []

    def counted(*arguments: Any) -> Any:
        ways.append(single_commit.commit_single(*arguments))
        return ways[-1]

    monkeypatch.setattr(dispatch, "commit_single", counted)
    pending = client.ask(committing(5), 9)
    if reason == "another broker keeps it too":
        assert pending.answer is None, "it waits for that one"
    else:
        assert codes(pending.answer) == [ErrorCode.NONE]
    assert ways == ([] if reason == "an authorizer" else [None])


def test_what_waits_to_be_safe_is_written_once_and_told_when_it_is() -> None:
    machine, client, _ = broker()
    flush_every_commit(machine)
    machine.hold(SyncLog)
    log = machine.broker.partitions[machine.broker.coordinators.groups.partition_of(G)].log
    end = log.log_end_offset
    pending = client.ask(committing(6), 9)
    assert (pending.answer, log.log_end_offset) == (None, end + 1)
    machine.release()
    assert codes(pending.answer) == [ErrorCode.NONE]
    assert log.log_end_offset == end + 1


def test_a_disk_that_fails_is_tried_once() -> None:
    machine, client, _ = broker(log_dirs="/a,/b")
    tried: list[int] = []
    runtime = machine.broker.coordinators.groups.runtime
    complete = type(runtime).complete

    def counted(*arguments: Any) -> None:
        tried.append(1)
        complete(*arguments)

    fail_commits(machine)
    with patch.object(type(runtime), "complete", counted):
        assert codes(client.ask(committing(6), 9).answer) == [ErrorCode.NOT_COORDINATOR]
    assert len(tried) == 1


def test_a_commit_that_is_refused_when_it_is_stored_leaves_no_circle_of_objects_behind() -> None:
    """In it would be the frame that the commit came in."""
    machine, client, _ = broker()
    runtime = machine.broker.coordinators.groups.runtime

    def too_large(*_: Any) -> None:
        raise ApiError(ErrorCode.MESSAGE_TOO_LARGE)

    with patch.object(type(runtime), "complete", too_large):
        client.ask(committing(6), 9)
        gc.collect()
        gc.disable()
        try:
            pending = client.ask(committing(7), 9)
            assert [kept for kept in gc.get_objects() if type(kept) is Tried] == []
        finally:
            gc.enable()
    assert codes(pending.answer) == [ErrorCode.UNKNOWN_SERVER_ERROR]


def test_a_bug_in_what_is_replayed_is_one_of_the_request_and_is_not_run_twice(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine, client, _ = broker()
    replayed: list[Any] = []

    def failing(*arguments: Any) -> None:
        replayed.append(arguments)
        raise ZeroDivisionError

    monkeypatch.setattr(GroupShard, "replay", failing)
    with pytest.raises(CloseConnection):
        client.ask(committing(6), 9)
    assert len(replayed) == 1
    assert "bug: OffsetCommit v9" in caplog.text
    assert shard_of(machine).groups == {}
