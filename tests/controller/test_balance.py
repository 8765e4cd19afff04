"""Balanced assignments, with few moves."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.controller.balance import Assignment, balance, summary
from ottla.controller.placement import place

Racks = dict[int, str | None]


def topic(name: str, brokers: list[int], partitions: int, factor: int) -> Assignment:
    placed = place(brokers, {}, range(partitions), factor, start=0)
    return {(name, p): replicas for p, replicas in placed.items()}


def applied(present: Assignment, racks: Racks) -> dict[tuple[str, int], tuple[int, ...]]:
    return {**present, **{(one.topic, one.partition): one.after for one in balance(present, racks)}}


def no_racks(*brokers: int) -> Racks:
    return dict.fromkeys(brokers)


def test_a_cluster_in_balance_is_left_alone() -> None:
    assert balance(topic("t", [1, 2, 3], 6, 2), no_racks(1, 2, 3)) == []


def test_a_new_broker_gets_its_share_and_nothing_else_moves() -> None:
    present = topic("t", [1, 2, 3], 12, 3)
    after = applied(present, no_racks(1, 2, 3, 4))
    counts = summary(after.values(), [1, 2, 3, 4])
    assert all(replicas == 9 for replicas, _ in counts.values()), counts
    assert all(leaders == 3 for _, leaders in counts.values()), counts
    moved = sum(len(set(after[id]) - set(present[id])) for id in present)
    assert moved == 9, "exactly what the new broker holds now"


def test_a_broker_that_is_gone_keeps_nothing() -> None:
    after = applied(topic("t", [1, 2, 3, 4], 8, 2), no_racks(1, 2, 3))
    assert all(4 not in replicas for replicas in after.values())


def test_with_too_few_brokers_a_replica_stays_where_it_was() -> None:
    present = {("t", 0): (1, 2, 3)}
    assert balance(present, no_racks(1, 2)) == []


def test_racks_come_before_even_counts() -> None:
    racks: Racks = {1: "a", 2: "a", 3: "a", 4: "b"}
    present = {("t", p): (1 + p % 3, 1 + (p + 1) % 3) for p in range(6)}
    for replicas in applied(present, racks).values():
        assert {racks[one] for one in replicas} == {"a", "b"}


def test_first_places_move_along_chains_without_moving_data() -> None:
    present = {("t", 0): (1, 2), ("t", 1): (1, 2), ("t", 2): (2, 3), ("t", 3): (2, 3), ("t", 4): (1, 2)}
    moves = balance(present, no_racks(1, 2, 3))
    after = applied(present, no_racks(1, 2, 3))
    leaders = [found[1] for found in summary(after.values(), ()).values()]
    assert max(leaders) - min(leaders) <= 1
    assert sum(len(one.added) for one in moves) <= 1


def test_no_brokers_no_plan() -> None:
    assert balance({("t", 0): (1,)}, {}) == []


def of_topic(assignment: Assignment, name: str) -> list[tuple[int, ...]]:
    return [replicas for (topic, _), replicas in assignment.items() if topic == name]


def gaps(assignment: list[tuple[int, ...]], brokers: Racks) -> tuple[int, int]:
    """How far the brokers differ in replicas, and in first places."""
    replicas, leaders = zip(*summary(assignment, brokers).values(), strict=True)
    return max(replicas) - min(replicas), max(leaders) - min(leaders)


def test_every_topic_is_spread_and_not_only_their_sum() -> None:
    racks = no_racks(1, 2, 3, 4)
    present = {**topic("old", [1, 2], 4, 2), **topic("new", [3, 4], 4, 2)}
    assert gaps(list(present.values()), racks) == (0, 0), "in sum they are"
    after = applied(present, racks)
    assert [gaps(of_topic(after, name), racks) for name in ("old", "new")] == [(0, 0), (0, 0)]


def test_topics_of_one_partition_each_are_spread_by_their_sum() -> None:
    racks = no_racks(1, 2, 3)
    present = {(f"t{number}", 0): (1, 2) for number in range(9)}
    assert gaps(list(applied(present, racks).values()), racks) == (0, 0)


def test_a_new_broker_gets_its_share_of_every_topic_and_nothing_else_moves() -> None:
    present = {**topic("a", [1, 2, 3], 12, 3), **topic("b", [1, 2, 3], 8, 2), **topic("c", [1, 2, 3], 3, 1)}
    racks = no_racks(1, 2, 3, 4)
    after = applied(present, racks)
    assert {name: gaps(of_topic(after, name), racks)[0] for name in "abc"} == {"a": 0, "b": 0, "c": 1}
    gained = {id for id in present if set(after[id]) - set(present[id])}
    assert all(set(after[id]) - set(present[id]) == {4} for id in gained)
    assert len(gained) in {13, 14}, "a quarter of 36 and of 16, and none or one of 3"


def test_a_topic_is_spread_within_the_racks_it_has() -> None:
    racks: Racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    present = {**topic("old", [1, 3], 4, 2), **topic("new", [2, 4], 4, 2)}
    after = applied(present, racks)
    assert all({racks[one] for one in replicas} == {"a", "b"} for replicas in after.values())
    assert [gaps(of_topic(after, name), racks) for name in ("old", "new")] == [(0, 0), (0, 0)]


@settings(max_examples=150)
@given(st.data())
def test_counts_are_within_one_by_topic_and_in_all_and_a_second_run_moves_nothing(
    data: st.DataObject,
) -> None:
    brokers = data.draw(st.integers(1, 6))
    racks = no_racks(*range(1, brokers + 1))
    present: dict[tuple[str, int], tuple[int, ...]] = {}
    factor = data.draw(st.integers(1, brokers))
    for name in "abcde"[: data.draw(st.integers(1, 5))]:
        before = data.draw(st.integers(factor, 8))
        choice = st.lists(st.permutations(range(1, before + 1)), min_size=1, max_size=12)
        present |= {(name, p): tuple(one[:factor]) for p, one in enumerate(data.draw(choice))}
    after = applied(present, racks)
    for id, replicas in after.items():
        assert len(set(replicas)) == len(present[id])
        assert set(replicas) <= set(racks)
    for name in {topic for topic, _ in present}:
        assert max(gaps(of_topic(after, name), racks)) <= 1
    replicas_gap, leaders_gap = gaps(list(after.values()), racks)
    assert replicas_gap <= 1
    assert leaders_gap <= 2, "a better one would take other replicas, or longer chains"
    assert balance(after, racks) == []


@settings(max_examples=100)
@given(st.data())
def test_topics_are_spread_over_racks_of_the_same_size(data: st.DataObject) -> None:
    racks: Racks = {number: "abc"[number % 3] for number in range(1, 1 + 3 * data.draw(st.integers(1, 3)))}
    factor = data.draw(st.integers(1, 3))
    present: dict[tuple[str, int], tuple[int, ...]] = {}
    for name in "abc"[: data.draw(st.integers(1, 3))]:
        choice = st.lists(st.permutations(range(1, len(racks) + 2)), min_size=1, max_size=12)
        present |= {(name, p): tuple(one[:factor]) for p, one in enumerate(data.draw(choice))}
    after = applied(present, racks)
    for replicas in after.values():
        assert len({racks[one] for one in replicas}) == factor
    for name in {topic for topic, _ in present}:
        assert max(gaps(of_topic(after, name), racks)) <= 1
    assert balance(after, racks) == []


@settings(max_examples=80)
@given(st.data())
def test_racks_are_spread_whatever_was_there(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from("abc"), min_size=2, max_size=6))
    racks: Racks = dict(enumerate(names, 1))
    factor = data.draw(st.integers(1, len(racks)))
    choice = st.lists(st.permutations(sorted(racks)), min_size=1, max_size=12)
    present = {("tuv"[p % 3], p): tuple(one[:factor]) for p, one in enumerate(data.draw(choice))}
    after = applied(present, racks)
    assert balance(after, racks) == []
    for replicas in after.values():
        used = Counter(racks[one] for one in replicas)
        sizes = Counter(racks.values())
        for rack, count in used.items():
            lower = [other for other in sizes if used[other] < min(count - 1, sizes[other])]
            assert not lower, (replicas, rack, lower)
