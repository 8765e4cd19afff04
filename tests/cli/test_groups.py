"""`ottla groups list` and `describe` against a real broker with real members, in both protocols."""

import json
from typing import Any

import pytest
from tests.cli.commands import on_a_terminal

from ottla import Broker
from ottla.client.librdkafka import cluster

PROTOCOLS = ["classic", "consumer"]


def described(quick: Any, *names: str) -> list[dict[str, Any]]:
    outcome = quick("groups", "describe", *names, "--json")
    assert outcome.code == 0, outcome.err
    return list(json.loads(outcome.out))


def listed(quick: Any, *arguments: str) -> dict[str, dict[str, Any]]:
    outcome = quick("groups", "list", "--json", *arguments)
    assert outcome.code == 0, outcome.err
    return {one["group"]: one for one in json.loads(outcome.out)}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_live_group_is_listed_with_its_members_and_lag(
    quick: Any, group: Any, topic: str, fresh: str, protocol: str
) -> None:
    member = group.join(fresh, topic, protocol)
    assert listed(quick)[fresh] == {
        "group": fresh,
        "state": "Stable",
        "type": protocol,
        "assignor": {"classic": "range", "consumer": "uniform"}[protocol],
        "members": 1,
        "lag": None,  # nothing is committed
    }
    member.commit(offsets=_places(topic, 2, 5), asynchronous=False)
    assert listed(quick)[fresh]["lag"] == 3
    group.leave()
    assert listed(quick)[fresh]["state"] == "Empty"
    assert listed(quick)[fresh]["members"] == 0


def _places(topic: str, *offsets: int) -> list[Any]:
    from confluent_kafka import TopicPartition

    return [TopicPartition(topic, at, offset) for at, offset in enumerate(offsets)]


def test_groups_are_filtered_by_state_and_type(quick: Any, group: Any, topic: str, fresh: str) -> None:
    old, new, simple = f"{fresh}-old", f"{fresh}-new", f"{fresh}-simple"
    group.join(old, topic, "classic")
    group.join(new, topic, "consumer")
    group.commit(simple, topic, 1)

    def ours(*arguments: str) -> set[str]:
        return {name for name in listed(quick, *arguments) if name.startswith(fresh)}

    assert ours() == {old, new, simple}
    assert ours("--type", "consumer") == {new}
    assert ours("--type", "Classic") == {old, simple}
    assert ours("--state", "empty") == {simple}
    assert ours("--state", "stable", "--type", "classic") == {old}
    assert ours("--state", "Stable", "--state", "EMPTY") == {old, new, simple}
    assert ours("--state", "rebalancing", "--state", "preparing-rebalance") == set()
    nothing = quick("groups", "list", "--state", "dead")
    assert (nothing.code, nothing.out, nothing.err) == (0, "", "there are no groups like that\n")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_partition_is_described_with_its_offsets_lag_and_reader(
    quick: Any, group: Any, topic: str, fresh: str, protocol: str
) -> None:
    member = group.join(fresh, topic, protocol, client_id="till-7")
    member.commit(offsets=_places(topic, 2), asynchronous=False)
    (found,) = described(quick, fresh)
    assert (found["state"], found["type"], found["simple"], found["lag"]) == ("Stable", protocol, False, 3)
    reader = {"member": member.memberid(), "client": "till-7", "host": "127.0.0.1"}
    assert found["partitions"] == [
        {"topic": topic, "partition": 0, "committed": 2, "end": 5, "lag": 3, "metadata": "", **reader},
        {"topic": topic, "partition": 1, "committed": None, "end": 5, "lag": None, "metadata": "", **reader},
    ]
    shown = quick("groups", "describe", fresh).out.splitlines()
    assert shown[0].startswith(f"group {fresh} · Stable · {protocol} · ")
    assert shown[0].endswith(" · 1 member · lag 3 · coordinator 1")
    assert shown[1].split() == ["TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER", "CLIENT", "HOST"]
    assert shown[2].split() == [topic, "0", "2", "5", "3", member.memberid(), "till-7", "127.0.0.1"]
    assert shown[3].split() == [topic, "1", "-", "5", "-", member.memberid(), "till-7", "127.0.0.1"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_members_are_described_with_what_is_assigned_to_them(
    quick: Any, group: Any, topic: str, fresh: str, protocol: str
) -> None:
    first = group.join(fresh, topic, protocol, group_instance_id="desk-1")
    second = group.join(fresh, topic, protocol)
    group.wait(lambda: len(first.assignment()) == len(second.assignment()) == 1)
    group.wait(lambda: listed(quick)[fresh]["state"] == "Stable")
    (found,) = described(quick, fresh)
    by_id = {one["member"]: one for one in found["members"]}
    assert set(by_id) == {first.memberid(), second.memberid()}
    for member in (first, second):
        (mine,) = member.assignment()
        one = by_id[member.memberid()]
        assert one["assignment"] == [{"topic": topic, "partition": mine.partition}]
        assert one["target"] == (None if protocol == "classic" else one["assignment"])
    assert by_id[first.memberid()]["instance"] == "desk-1"
    assert by_id[second.memberid()]["instance"] is None
    shown = quick("groups", "describe", fresh, "--members").out
    columns = ["MEMBER", "INSTANCE", "CLIENT", "HOST", "PARTITIONS", "ASSIGNMENT"]
    assert shown.splitlines()[1].split() == columns
    assert f"{topic}:0" in shown
    assert f"{topic}:1" in shown
    assert "desk-1" in shown


def test_offsets_without_members_are_described_with_their_metadata(
    quick: Any, group: Any, topic: str, fresh: str
) -> None:
    group.commit(fresh, topic, 1, 5, metadata="until the eel")
    (found,) = described(quick, fresh)
    assert (found["state"], found["type"], found["simple"]) == ("Empty", "classic", True)
    assert (found["members"], found["assignor"], found["lag"]) == ([], None, 4)
    assert [one["metadata"] for one in found["partitions"]] == ["until the eel"] * 2
    assert [one["member"] for one in found["partitions"]] == [None, None]
    shown = quick("groups", "describe", fresh).out
    assert "METADATA" in shown
    assert "until the eel" in shown
    assert "METADATA" not in quick("groups", "describe", fresh, "--members").out


def test_offsets_of_a_topic_that_is_gone_have_neither_end_nor_lag(
    quick: Any, group: Any, topic: str, fresh: str, quick_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = quick_broker.create_topic(f"{fresh}-gone")
    group.commit(fresh, topic, 4, 5)
    group.commit(fresh, other, 0)
    _hide(other, monkeypatch)
    (found,) = described(quick, fresh)
    gone, *others = found["partitions"]
    assert (gone["topic"], gone["committed"], gone["end"], gone["lag"]) == (other, 0, None, None)
    assert [one["lag"] for one in others] == [1, 0]
    assert found["lag"] == listed(quick)[fresh]["lag"] == 1
    assert quick("groups", "describe", fresh).code == 0
    reset = quick("groups", "reset", fresh, "--all-topics", "--to-latest")
    assert reset.err.startswith(f"warning: {other} 0 is not there any more and is left as it is\n")
    assert (reset.code, reset.out.count(topic)) == (0, 2)


def _hide(topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether offsets outlive their topic is the broker's affair; here the topic is gone and they are not."""
    metadata = cluster.metadata

    def without(client: Any) -> Any:
        found = metadata(client)
        found.topics.pop(topic, None)
        return found

    monkeypatch.setattr(cluster, "metadata", without)


def test_a_deleted_topic_does_not_keep_its_readers_from_being_described(
    quick: Any, group: Any, topic: str, fresh: str, quick_broker: Broker
) -> None:
    group.join(fresh, topic).commit(offsets=_places(topic, 1, 1), asynchronous=False)
    quick_broker.delete_topic(topic)
    for arguments in (("describe", fresh), ("describe", fresh, "--members"), ("list",)):
        outcome = quick("groups", *arguments)
        assert outcome.code == 0, outcome.err
        assert fresh in outcome.out


def test_several_groups_are_described_in_the_given_order(
    quick: Any, group: Any, topic: str, fresh: str
) -> None:
    names = [f"{fresh}-{letter}" for letter in "bca"]
    for name in names:
        group.commit(name, topic, 1)
    assert [one["group"] for one in described(quick, *names, names[0])] == names


def test_a_group_that_is_not_there_is_answered_with_the_nearest_name(
    quick: Any, group: Any, topic: str, fresh: str
) -> None:
    group.commit(fresh, topic, 1)
    outcome = quick("groups", "describe", fresh, f"{fresh}s")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == f"ottla: there is no group '{fresh}s'; did you mean '{fresh}'?\n"


def test_groups_are_drawn_on_a_terminal(
    quick: Any, group: Any, topic: str, fresh: str, quick_broker: Broker
) -> None:
    group.commit(fresh, topic, 1)
    shown = on_a_terminal("groups", "describe", fresh, "--bootstrap", quick_broker.bootstrap_servers)
    assert "─" in shown
    assert topic in shown
