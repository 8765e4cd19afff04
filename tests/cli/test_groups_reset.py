"""`ottla groups reset`: the plan, the deed, and what is refused."""

import json
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from ottla import Broker


def committed(quick: Any, group: str) -> dict[int, int]:
    outcome = quick("groups", "describe", group, "--json")
    assert outcome.code == 0, outcome.err
    return {one["partition"]: one["committed"] for one in json.loads(outcome.out)[0]["partitions"]}


def test_without_execute_only_the_plan_is_shown(quick: Any, group: Any, topic: str, fresh: str) -> None:
    group.commit(fresh, topic, 2, 4)
    outcome = quick("groups", "reset", fresh, "--topic", topic, "--to-earliest", "--dry-run")
    assert (outcome.code, outcome.err) == (0, "nothing was changed; --execute does it\n")
    shown = outcome.out.splitlines()
    assert shown[0] == f"group {fresh}"
    assert shown[1].split() == ["TOPIC", "PARTITION", "COMMITTED", "NEW", "END", "LAG", "NEW", "LAG"]
    assert shown[2].split() == [topic, "0", "2", "0", "5", "3", "5"]
    assert shown[3].split() == [topic, "1", "4", "0", "5", "1", "5"]
    assert committed(quick, fresh) == {0: 2, 1: 4}


@pytest.mark.parametrize(
    ("goal", "expected"),
    [
        (("--to-earliest",), {0: 0, 1: 0}),
        (("--to-latest",), {0: 5, 1: 5}),
        (("--to-offset", "3"), {0: 3, 1: 3}),
        (("--shift-by", "1"), {0: 3, 1: 5}),
        (("--shift-by", "-2"), {0: 0, 1: 2}),
        (("--to-time", "1h"), {0: 0, 1: 0}),
        (("--to-time", "2030-01-31T12:00:00Z"), {0: 5, 1: 5}),
        (("--to-time", "1960-01-01"), {0: 0, 1: 0}),
    ],
)
def test_execute_does_what_the_plan_says(
    quick: Any, group: Any, topic: str, fresh: str, goal: tuple[str, ...], expected: dict[int, int]
) -> None:
    group.commit(fresh, topic, 2, 4)
    plan = quick("groups", "reset", fresh, "--all-topics", *goal, "--json")
    assert {one["partition"]: one["new"] for one in json.loads(plan.out)} == expected
    done = quick("groups", "reset", fresh, "--all-topics", *goal, "--execute", "--json")
    assert (done.code, done.err) == (0, f"group {fresh}: reset 2 partitions\n")
    assert done.out == plan.out
    assert committed(quick, fresh) == expected


def test_a_time_goes_to_the_first_record_at_or_after_it(
    quick: Any, group: Any, topic: str, fresh: str
) -> None:
    group.commit(fresh, topic, 0)
    stamps = quick("consume", topic, "-p", "0", "--format", "%T").out.split()
    for at, stamp in enumerate(stamps):
        moment = datetime.fromtimestamp(int(stamp) / 1000, UTC).isoformat()
        for given in (stamp, moment):
            plan = quick("groups", "reset", fresh, "-t", f"{topic}:0", "--to-time", given, "--json")
            assert [one["new"] for one in json.loads(plan.out)] == [at], plan.err
    assert int(stamps[-1]) <= time.time() * 1000


def test_an_offset_out_of_range_becomes_the_nearest_with_a_warning(
    quick: Any, group: Any, topic: str, fresh: str
) -> None:
    group.commit(fresh, topic, 2, 4)
    beyond = quick("groups", "reset", fresh, "--topic", topic, "--to-offset", "99", "--execute")
    assert beyond.code == 0
    assert beyond.err.splitlines() == [
        f"warning: {topic} 0: offset 99 is after the end, 5, which is taken instead",
        f"warning: {topic} 1: offset 99 is after the end, 5, which is taken instead",
        f"group {fresh}: reset 2 partitions",
    ]
    assert committed(quick, fresh) == {0: 5, 1: 5}
    before = quick("groups", "reset", fresh, "--topic", f"{topic}:1", "--shift-by", "-7", "--execute")
    assert before.err.splitlines() == [
        f"warning: {topic} 1: offset -2 is before the start, 0, which is taken instead",
        f"group {fresh}: reset 1 partition",
    ]
    assert committed(quick, fresh) == {0: 5, 1: 0}


def test_records_that_were_deleted_are_not_gone_back_to(
    quick: Any, group: Any, topic: str, fresh: str, quick_broker: Broker
) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    group.commit(fresh, topic, 4, 4)
    client = AdminClient({"bootstrap.servers": quick_broker.bootstrap_servers})
    for future in client.delete_records([TopicPartition(topic, 0, 3)]).values():
        future.result(20)
    assert quick("groups", "reset", fresh, "-t", topic, "--to-earliest", "--execute").code == 0
    assert committed(quick, fresh) == {0: 3, 1: 0}
    low = quick("groups", "reset", fresh, "-t", f"{topic}:0", "--to-offset", "1")
    assert low.err.startswith(f"warning: {topic} 0: offset 1 is before the start, 3, ")


def test_only_the_named_partitions_are_reset(quick: Any, group: Any, topic: str, fresh: str) -> None:
    group.commit(fresh, topic, 2, 4)
    assert quick("groups", "reset", fresh, "--topic", f"{topic}:1", "--to-latest", "--execute").code == 0
    assert committed(quick, fresh) == {0: 2, 1: 5}
    missing = quick("groups", "reset", fresh, "--topic", f"{topic}:0,7", "--to-latest")
    assert (missing.code, missing.err) == (1, f"ottla: topic {topic} has no partition 7, only 0 to 1\n")
    nowhere = quick("groups", "reset", fresh, "--topic", "no-such-topic", "--to-latest")
    assert (nowhere.code, nowhere.err) == (1, "ottla: there is no topic 'no-such-topic'\n")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_is_left_alone_and_reset_once_they_are_gone(
    quick: Any, group: Any, topic: str, fresh: str, protocol: str
) -> None:
    group.join(fresh, topic, protocol)
    for more in ((), ("--execute",)):
        refused = quick("groups", "reset", fresh, "--topic", topic, "--to-latest", *more)
        assert (refused.code, refused.out) == (1, "")
        assert refused.err == (
            f"ottla: group {fresh} is Stable and has 1 member; stop them first, then reset\n"
        )
    group.leave()
    done = quick("groups", "reset", fresh, "--topic", topic, "--to-offset", "4", "--execute")
    assert done.code == 0, done.err
    read = quick("consume", topic, "--group", fresh, "--group-protocol", protocol, "--format", "%p/%o")
    assert sorted(read.out.split()) == ["0/4", "1/4"]


def test_a_group_may_be_given_offsets_before_it_is_born(quick: Any, topic: str, fresh: str) -> None:
    done = quick("groups", "reset", fresh, "--topic", topic, "--to-offset", "3", "--execute")
    assert done.code == 0, done.err
    assert committed(quick, fresh) == {0: 3, 1: 3}


def test_what_is_not_committed_can_neither_be_shifted_nor_found(
    quick: Any, group: Any, topic: str, fresh: str
) -> None:
    nothing = quick("groups", "reset", fresh, "--all-topics", "--to-earliest")
    assert nothing.code == 1
    assert nothing.err == f"ottla: group {fresh} has no committed offsets; name topics with --topic\n"
    group.commit(fresh, topic, 2)
    outcome = quick("groups", "reset", fresh, "--topic", topic, "--shift-by", "1", "--execute")
    assert outcome.code == 1
    assert outcome.err == f"ottla: {topic} 1 has no committed offset to shift; nothing was changed\n"
    assert committed(quick, fresh) == {0: 2}


@pytest.mark.parametrize(
    "arguments",
    [
        ("--to-earliest",),
        ("--topic", "t", "--all-topics", "--to-earliest"),
        ("--topic", "t"),
        ("--topic", "t", "--to-earliest", "--dry-run", "--execute"),
        ("--topic", "t", "--to-earliest", "--to-latest"),
        ("--topic", "t", "--to-offset", "0", "--shift-by", "0"),
        ("--topic", "t", "--to-offset", "first"),
        ("--topic", "t", "--to-time", "soon"),
        ("--topic", "t:", "--to-earliest"),
        ("--topic", "t:1,x", "--to-earliest"),
        ("--topic", ":1", "--to-earliest"),
    ],
)
def test_a_mistake_in_the_arguments_leaves_with_2(run: Any, arguments: tuple[str, ...]) -> None:
    outcome = run("groups", "reset", "g", *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.strip()


def test_a_member_that_joins_in_between_is_one_line(
    quick: Any, group: Any, topic: str, fresh: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ottla.cli.groups import reset

    group.commit(fresh, topic, 2, 4)
    plan = reset.plan

    def planned_too_slowly(*arguments: Any) -> Any:
        moves = plan(*arguments)
        group.join(fresh, topic)
        return moves

    monkeypatch.setattr(reset, "plan", planned_too_slowly)
    outcome = quick("groups", "reset", fresh, "--topic", topic, "--to-latest", "--execute")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == (f"ottla: group {fresh}: a member joined meanwhile; stop it first, then reset\n")
    assert committed(quick, fresh) == {0: 2, 1: 4}
