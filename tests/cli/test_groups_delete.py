"""`ottla groups delete`: whole groups, or some of their offsets."""

import json
import os
import pty
import select
import socket
import subprocess
import sys
import threading
from typing import Any

import pytest

from ottla import Broker
from ottla.base.command_error import CommandError
from ottla.cli.groups.offset_deletion import Refusal, delete_offsets


def committed(quick: Any, group: str) -> list[tuple[str, int]]:
    outcome = quick("groups", "describe", group, "--json")
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)[0]["partitions"]
    return [(one["topic"], one["partition"]) for one in found if one["committed"] is not None]


def names(quick: Any) -> set[str]:
    return {one["group"] for one in json.loads(quick("groups", "list", "--json").out)}


def test_groups_are_deleted_with_what_they_committed(quick: Any, group: Any, topic: str, fresh: str) -> None:
    first, second = f"{fresh}-1", f"{fresh}-2"
    for name in (first, second):
        group.commit(name, topic, 1, 2)
    outcome = quick("groups", "delete", first, second, "--yes")
    assert outcome.code == 0
    assert outcome.err == f"deleted group {first}\ndeleted group {second}\n"
    assert not {first, second} & names(quick)
    assert quick("groups", "describe", first).code == 1


def test_a_group_that_is_not_there_is_an_error_unless_that_is_fine(
    quick: Any, group: Any, topic: str, fresh: str
) -> None:
    group.commit(fresh, topic, 1)
    outcome = quick("groups", "delete", "no-such-group", fresh, "--yes")
    assert outcome.code == 1
    assert outcome.err == f"deleted group {fresh}\nottla: there is no group 'no-such-group'\n"
    assert quick("groups", "delete", "no-such-group", "--if-exists", "--yes").code == 0
    assert quick("groups", "delete", "no-such-group", "--topic", topic, "--yes").err == (
        "ottla: there is no group 'no-such-group'\n"
    )
    assert quick("groups", "delete", "no-such-group", "--topic", topic, "--if-exists", "-y").code == 0


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_is_not_deleted(
    quick: Any, group: Any, topic: str, fresh: str, protocol: str
) -> None:
    from confluent_kafka import TopicPartition

    member = group.join(fresh, topic, protocol)
    member.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    outcome = quick("groups", "delete", fresh, "--yes")
    assert outcome.code == 1
    assert outcome.err == (
        f"ottla: group {fresh} has members; stop them first (`ottla groups describe {fresh} --members`)\n"
    )
    offsets = quick("groups", "delete", fresh, "--topic", topic, "--yes")
    assert (offsets.code, offsets.err) == (
        1, f"ottla: group {fresh}, {topic} 0: a member subscribes to the topic\n",
    )  # fmt: skip
    assert committed(quick, fresh) == [(topic, 0)]
    group.leave()
    assert quick("groups", "delete", fresh, "--yes").code == 0


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_topic_that_no_member_reads_any_more_loses_its_offsets(
    quick: Any, group: Any, topic: str, fresh: str, protocol: str, quick_broker: Broker
) -> None:
    other = quick_broker.create_topic(f"{fresh}-other")
    try:
        group.commit(fresh, other, 0)
        group.join(fresh, topic, protocol)
        outcome = quick("groups", "delete", fresh, "--topic", other, "--yes")
        assert (outcome.code, outcome.err) == (0, f"group {fresh}: deleted 1 committed offset\n")
        assert committed(quick, fresh) == []
    finally:
        quick_broker.delete_topic(other)


def test_only_the_named_offsets_are_deleted(
    quick: Any, group: Any, topic: str, fresh: str, quick_broker: Broker
) -> None:
    other = quick_broker.create_topic(f"{fresh}-other")
    try:
        group.commit(fresh, topic, 1, 2)
        group.commit(fresh, other, 0)
        outcome = quick("groups", "delete", fresh, "--topic", f"{topic}:1", "--topic", other, "-y")
        assert (outcome.code, outcome.err) == (0, f"group {fresh}: deleted 2 committed offsets\n")
        assert committed(quick, fresh) == [(topic, 0)]
        again = quick("groups", "delete", fresh, "--topic", f"{topic}:1", "--yes")
        assert (again.code, again.err) == (0, f"group {fresh}: no such offset is committed\n")
    finally:
        quick_broker.delete_topic(other)


def test_without_a_terminal_nothing_is_deleted_unless_yes_is_said(
    quick: Any, group: Any, topic: str, fresh: str
) -> None:
    group.commit(fresh, topic, 1)
    outcome = quick("groups", "delete", fresh)
    assert (outcome.code, outcome.err) == (
        2, "ottla: nothing was done: without a terminal to ask at, this takes --yes\n",
    )  # fmt: skip
    assert fresh in names(quick)


@pytest.mark.parametrize(("answer", "code"), [("n", 1), ("y", 0)])
def test_a_person_at_a_terminal_is_asked(
    quick: Any, group: Any, topic: str, fresh: str, quick_broker: Broker, answer: str, code: int
) -> None:
    group.commit(fresh, topic, 1)
    ours, theirs = pty.openpty()
    arguments = ["groups", "delete", fresh, "--bootstrap", quick_broker.bootstrap_servers]
    process = subprocess.Popen(
        [sys.executable, "-m", "ottla.cli", *arguments],
        stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    os.close(theirs)
    watchdog = threading.Timer(90, process.kill)
    watchdog.start()
    try:
        asked = b""
        while b"?" not in asked and select.select([ours], [], [], 20)[0]:
            asked += os.read(ours, 1000)
        assert f"Delete group {fresh} with all it committed?" in asked.decode()
        os.write(ours, f"{answer}\n".encode())
        _, errors = process.communicate(timeout=20)
    finally:
        watchdog.cancel()
        process.kill()
        process.communicate()
        os.close(ours)
    assert process.returncode == code
    assert errors.lstrip() == (f"deleted group {fresh}\n" if code == 0 else "ottla: nothing was done\n")
    assert (fresh in names(quick)) is bool(code)


def test_a_coordinator_that_is_none_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def refuse() -> None:
            connection, _ = server.accept()
            connection.recv(1000)
            connection.close()

        other = threading.Thread(target=refuse)
        other.start()
        with pytest.raises(CommandError, match=f"the coordinator of group g at 127.0.0.1:{port}: "):
            delete_offsets(f"127.0.0.1:{port}", "127.0.0.1", port, "g", [("t", 0)])
        other.join()
    with pytest.raises(CommandError, match="refused"):
        delete_offsets(f"127.0.0.1:{port}", "127.0.0.1", port, "g", [("t", 0)])


def test_offsets_of_a_group_that_went_meanwhile_are_refused_as_a_whole(quick_broker: Broker) -> None:
    host, _, port = quick_broker.bootstrap_servers.rpartition(":")
    assert delete_offsets(quick_broker.bootstrap_servers, host, int(port), "no-such-group", [("t", 0)]) == [
        Refusal(69)
    ]
