"""Ranges to tasks, and how much goes into a micro-batch."""

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client import TopicPartition
from ottla.spark.offsets import first_end, from_json, limited, started_at, to_json
from ottla.spark.plan import ROWS_PER_TASK, Range, Ranges, Split, cut, pack, plan


def ranges(*sizes: int) -> list[Range]:
    return [Range("t", number, 10, 10 + size) for number, size in enumerate(sizes)]


def sizes(tasks: list[Ranges]) -> list[int]:
    return sorted(sum(each.size for each in task.ranges) for task in tasks)


def test_a_quiet_micro_batch_is_one_task_however_many_partitions_it_has() -> None:
    (task,) = plan(ranges(*[10] * 64), Split())
    assert len(task.ranges) == 64


def test_a_large_read_has_a_task_for_every_partition() -> None:
    assert len(plan(ranges(*[10 * ROWS_PER_TASK] * 8), Split())) == 8


def test_tasks_are_of_about_the_same_size() -> None:
    assert sizes(plan(ranges(70, 30, 20, 50, 10, 60), Split(partitions_max=2))) == [120, 120]


def test_what_has_nothing_in_it_is_no_task() -> None:
    assert plan(ranges(0, 0), Split()) == []
    assert plan([Range("t", 0, 10, 5)], Split(partitions_min=4)) == []


def test_min_partitions_cuts_the_large_ranges_and_leaves_the_small_ones() -> None:
    tasks = plan(ranges(1000, 10), Split(partitions_min=5))
    assert len(tasks) == 5
    assert sizes(tasks) == [10, 250, 250, 250, 250]


def test_no_task_has_more_than_max_records_per_partition() -> None:
    tasks = plan(ranges(1000, 10, 10, 333), Split(rows_max=100))
    assert sum(sizes(tasks)) == 1353
    assert max(sizes(tasks)) <= 100


def test_both_together_hold() -> None:
    tasks = plan(ranges(100), Split(partitions_min=4, rows_max=50))
    assert sizes(tasks) == [25, 25, 25, 25]


def test_an_input_partition_travels() -> None:
    (task,) = plan(ranges(5, 6), Split())
    assert pickle.loads(pickle.dumps(task)).ranges == task.ranges


@settings(max_examples=40)
@given(st.lists(st.integers(0, 3000), max_size=10), st.integers(1, 30), st.integers(100, 5000))
def test_every_offset_is_read_once_and_in_order(given_sizes: list[int], count: int, rows_max: int) -> None:
    whole = ranges(*given_sizes)
    for split in (
        Split(),
        Split(partitions_min=count),
        Split(partitions_max=count),
        Split(rows_max=rows_max),
    ):
        seen: dict[int, int] = {}
        pieces = sorted(piece for task in plan(whole, split) for piece in task.ranges)
        for piece in pieces:
            assert piece.start == seen.get(piece.partition, 10)
            seen[piece.partition] = piece.end
        assert seen == {each.partition: each.end for each in whole if each.size}


def test_pieces_and_groups_lose_nothing() -> None:
    assert cut(Range("t", 0, 0, 10), 3) == [Range("t", 0, 0, 3), Range("t", 0, 3, 6), Range("t", 0, 6, 10)]
    assert pack(ranges(3, 2, 1), 2) == [
        [Range("t", 0, 10, 13)],
        [Range("t", 1, 10, 12), Range("t", 2, 10, 11)],
    ]


def places(**offsets: int) -> dict[TopicPartition, int]:
    return {TopicPartition("t", int(name[1:])): offset for name, offset in offsets.items()}


def test_offsets_are_the_official_json_in_order() -> None:
    offsets = {TopicPartition("b", 10): 1, TopicPartition("b", 2): 2, TopicPartition("a", 0): 3}
    assert list(to_json(offsets)["b"]) == ["2", "10"]
    assert to_json(offsets) == {"a": {"0": 3}, "b": {"2": 2, "10": 1}}
    assert from_json(to_json(offsets)) == offsets


def test_the_first_batch_carries_its_start_and_no_other_does() -> None:
    end = first_end(places(p0=100), places(p0=110))
    assert from_json(end) == places(p0=110)
    assert started_at(to_json(places(p0=130)), end) == places(p0=100)
    assert started_at(end, end) is None
    assert started_at(end, to_json(places(p0=120))) is None


def test_a_first_batch_over_nothing_starts_at_nothing() -> None:
    """A pattern that matches no topic yet: what comes later is new, and is read from its beginning."""
    assert started_at({}, first_end({}, places(p0=5))) == {}


@pytest.mark.parametrize(
    ("start", "end", "rows", "limited_to"),
    [
        (places(p0=0, p1=0), places(p0=900, p1=100), 100, places(p0=90, p1=10)),
        (places(p0=0, p1=0), places(p0=10_000, p1=1), 100, places(p0=99, p1=1)),
        (places(p0=5, p1=5), places(p0=10, p1=5), 100, places(p0=10, p1=5)),
        (places(p0=5), places(p0=3), 1, places(p0=3)),
    ],
)
def test_a_limit_is_shared_in_proportion_and_starves_nobody(
    start: dict[TopicPartition, int],
    end: dict[TopicPartition, int],
    rows: int,
    limited_to: dict[TopicPartition, int],
) -> None:
    assert limited(start, end, rows) == limited_to
