"""Where replicas go."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.errors import ApiError, ErrorCode
from ottla.controller.placement import place


def test_one_broker_gets_everything() -> None:
    assert place([7], {}, range(3), 1, start=0) == {0: (7,), 1: (7,), 2: (7,)}


def test_leaders_go_around_and_followers_shift() -> None:
    assignment = place([1, 2, 3], {}, range(6), 2, start=0)
    assert [replicas[0] for replicas in assignment.values()] == [1, 2, 3, 1, 2, 3]
    assert assignment[0] != assignment[3]


@given(st.integers(1, 7), st.integers(1, 40), st.integers(0, 100), st.data())
def test_replicas_are_distinct_and_leaders_are_balanced(
    brokers: int, partitions: int, start: int, data: st.DataObject
) -> None:
    factor = data.draw(st.integers(1, brokers))
    assignment = place(list(range(brokers)), {}, range(partitions), factor, start)
    assert all(len(set(replicas)) == factor for replicas in assignment.values())
    leaders = Counter(replicas[0] for replicas in assignment.values())
    assert max(leaders.values()) - min(leaders[broker] for broker in range(brokers)) <= 1


@pytest.mark.parametrize("factor", [0, -1, 3])
def test_more_replicas_than_brokers_are_refused(factor: int) -> None:
    with pytest.raises(ApiError) as refused:
        place([1, 2], {}, range(1), factor, start=0)
    assert refused.value.code == ErrorCode.INVALID_REPLICATION_FACTOR


@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 24), st.integers(0, 50), st.data())
def test_replicas_are_spread_over_racks_as_evenly_as_can_be(
    racks: int, in_each: int, partitions: int, start: int, data: st.DataObject
) -> None:
    where: dict[int, str | None] = {broker: f"r{broker % racks}" for broker in range(racks * in_each)}
    factor = data.draw(st.integers(1, len(where)))
    assignment = place(sorted(where), where, range(partitions), factor, start)
    for replicas in assignment.values():
        used = Counter(where[broker] for broker in replicas)
        assert len(set(replicas)) == factor
        assert max(used.values()) - min(used.get(f"r{rack}", 0) for rack in range(racks)) <= 1


def test_brokers_that_do_not_say_where_they_stand_are_one_rack() -> None:
    where = {1: "a", 2: None, 3: None, 4: "b"}
    for replicas in place([1, 2, 3, 4], where, range(8), 3, start=0).values():
        assert len({where[broker] for broker in replicas}) == 3


def test_with_racks_the_followers_of_a_broker_are_spread_too() -> None:
    where: dict[int, str | None] = {broker: "ab"[broker % 2] for broker in range(6)}
    assignment = place(sorted(where), where, range(60), 2, start=0)
    followers = {leader: Counter(r[1] for r in assignment.values() if r[0] == leader) for leader in where}
    assert all(len(found) == 3 for found in followers.values()), followers
