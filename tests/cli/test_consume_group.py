"""`ottla consume --group`: a real member, that commits what it printed."""

import json
import threading
from typing import Any

import pytest
from tests.cli.commands import consumer_settings, running

from ottla import Broker
from ottla.base.command_error import CommandError
from ottla.cli.records import group_member

PROTOCOLS = ["classic", "consumer"]


def committed(quick: Any, group: str) -> dict[int, int]:
    outcome = quick("groups", "describe", group, "--json")
    assert outcome.code == 0, outcome.err
    return {one["partition"]: one["committed"] for one in json.loads(outcome.out)[0]["partitions"]}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_reads_on_where_it_stopped(quick: Any, topic: str, fresh: str, protocol: str) -> None:
    member = ("consume", topic, "--group", fresh, "--group-protocol", protocol, "--format", "%p/%o")
    first = quick(*member, "--max", "4")
    assert (first.code, first.err) == (0, "")
    assert len(first.out.split()) == 4
    assert sum(committed(quick, fresh).values()) == 4
    second = quick(*member)
    assert (second.code, second.err) == (0, "")
    everything = [f"{partition}/{offset}" for partition in (0, 1) for offset in range(5)]
    assert sorted(first.out.split() + second.out.split()) == everything
    assert committed(quick, fresh) == {0: 5, 1: 5}
    assert quick(*member).out == ""
    quick("produce", topic, "-p", "1", stdin=b"one more\n")
    assert quick(*member).out == "1/5\n"


def test_two_groups_read_everything_each(quick: Any, topic: str, fresh: str) -> None:
    for name in (f"{fresh}-a", f"{fresh}-b"):
        assert len(quick("consume", topic, "--group", name).out.split()) == 10


def test_a_member_reads_what_is_assigned_to_it_and_leaves_the_rest(
    quick: Any, group: Any, topic: str, fresh: str
) -> None:
    """The other member holds on to one of the two partitions."""
    told: list[set[int]] = []
    other = group.join(
        fresh, topic, on_assign=lambda _member, given: told.append({one.partition for one in given})
    )
    done = threading.Event()

    def hold() -> None:
        while not done.is_set():
            other.poll(0.05)

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        outcome = quick("consume", topic, "--group", fresh, "--format", "%p")
    finally:
        done.set()
        holder.join()
    assert outcome.code == 0, outcome.err
    (mine,) = {frozenset(one) for one in told if len(one) == 1}
    assert set(map(int, outcome.out.split())) == {0, 1} - mine
    assert len(outcome.out.split()) == 5


def test_a_member_without_partitions_gives_up_in_time(
    quick: Any, group: Any, topic: str, fresh: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_member, "JOIN_S", 1.0)
    group.join(fresh, topic, "consumer")
    group.join(fresh, topic, "consumer")
    outcome = quick("consume", topic, "--group", fresh, "--group-protocol", "consumer")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == f"ottla: no partition of {topic} was assigned within 1 s\n"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_following_commits_what_comes_until_interrupted(
    quick: Any, topic: str, fresh: str, quick_broker: Broker, group: Any, protocol: str
) -> None:
    group.commit(fresh, topic, 5, 5)
    arguments = ["consume", topic, "--group", fresh, "--group-protocol", protocol, "--follow"]
    with running(*arguments, "--bootstrap", quick_broker.bootstrap_servers) as command:
        for number in range(2):
            quick("produce", topic, "-p", "0", stdin=b"after %d\n" % number)
            assert command.line() == f"after {number}\n"
        group.wait(lambda: committed(quick, fresh) == {0: 7, 1: 5})
        assert command.interrupt() == (0, "", "")
    assert json.loads(quick("groups", "describe", fresh, "--json").out)[0]["state"] == "Empty"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [((), "earliest"), (("--follow",), "latest"), (("--follow", "--from-beginning"), "earliest")],
)
def test_a_group_without_offsets_begins_as_it_is_told(
    quick: Any, topic: str, fresh: str, monkeypatch: pytest.MonkeyPatch, arguments: Any, expected: str
) -> None:
    given = consumer_settings(monkeypatch)
    assert quick("consume", topic, "--group", fresh, *arguments).code == 1
    given.pop("check.crcs")
    assert given == {
        "group.id": fresh,
        "group.protocol": "classic",
        "auto.offset.reset": expected,
        "isolation.level": "read_committed",
    }


@pytest.mark.parametrize(
    "arguments",
    [
        ("--group", "g", "--offset", "3"),
        ("--group", "g", "--since", "10m"),
        ("--group", "g", "--partition", "0"),
        ("--group", "g", "--group-protocol", "modern"),
        ("--group-protocol", "consumer"),
        ("--group", ""),
    ],
)
def test_what_does_not_go_with_a_group_leaves_with_2(run: Any, arguments: tuple[str, ...]) -> None:
    outcome = run("consume", "t", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("ottla: ")
    assert outcome.err.count("\n") == 1


def test_a_topic_that_is_not_there_is_not_waited_for(quick: Any, fresh: str) -> None:
    outcome = quick("consume", "no-such-topic", "--group", fresh)
    assert (outcome.code, outcome.err) == (1, "ottla: there is no topic 'no-such-topic'\n")


def test_a_group_of_another_protocol_is_one_line(quick: Any, group: Any, topic: str, fresh: str) -> None:
    group.join(fresh, topic, "classic", partition_assignment_strategy="range")
    outcome = quick("consume", topic, "--group", fresh, "-X", "partition.assignment.strategy=roundrobin")
    assert outcome.code == 1
    assert outcome.err.startswith("ottla: ")
    assert outcome.err.count("\n") == 1


class Refusing:
    """A consumer whose commits are refused for a while, as in the midst of a rebalance."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)
        self.committed: list[tuple[int, int]] = []

    def commit(self, offsets: list[Any], asynchronous: bool) -> list[Any]:
        from confluent_kafka import KafkaError, KafkaException

        assert not asynchronous
        if self.codes:
            raise KafkaException(KafkaError(self.codes.pop(0)))
        self.committed += [(one.partition, one.offset) for one in offsets]
        return offsets

    def poll(self, _timeout: float) -> None:
        return None


def test_a_commit_refused_in_a_rebalance_is_tried_again() -> None:
    from confluent_kafka import KafkaError

    client: Any = Refusing(KafkaError.REBALANCE_IN_PROGRESS, KafkaError.STALE_MEMBER_EPOCH)
    member = group_member.Membership(client, "t", follow=False)
    member.printed = {0: 7}
    member._settle()
    assert (client.committed, member.printed) == ([(0, 7)], {})


def test_what_is_never_committed_is_said(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    from confluent_kafka import KafkaError, KafkaException, TopicPartition

    monkeypatch.setattr(group_member, "COMMIT_S", 0.01)
    client: Any = Refusing(*[KafkaError.REBALANCE_IN_PROGRESS] * 10_000)
    member = group_member.Membership(client, "t", follow=False)
    member.printed = {0: 7}
    with pytest.raises(CommandError, match="could not be committed"):
        member._settle()
    member._on_lost(client, [TopicPartition("t", 0)])
    assert "some records will be read again" in capsys.readouterr().err
    member.printed = {0: 7}
    client.codes = [KafkaError.GROUP_AUTHORIZATION_FAILED]
    with pytest.raises(KafkaException):
        member._commit()
