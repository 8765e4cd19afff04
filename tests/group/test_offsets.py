"""Committed offsets: what is answered, and what expires."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.groups import groups_of

from ottla.group.committed_offset import CommittedOffset
from ottla.group.offsets import Offsets
from ottla.group.records import OffsetCommitValue

examples = settings(max_examples=150)
DAY_MS = 86_400_000


def value(offset, *, at_ms=0, expire_ms=-1):
    return OffsetCommitValue(offset=offset, metadata="", commit_timestamp=at_ms, expire_timestamp=expire_ms)


def committed(found):
    return None if found is None else found.offset


def test_a_commit_is_told_only_once_the_watermark_has_passed_it():
    offsets = Offsets()
    offsets.replay("g", "t", 0, value(5), log_offset=10)
    assert offsets.get("g", "t", 0, committed_below=10) is None
    assert offsets.has_any("g")
    assert committed(offsets.get("g", "t", 0, committed_below=11)) == 5


def test_until_then_the_one_before_it_is_told():
    offsets = Offsets()
    for log_offset, offset in enumerate([5, 6, 7]):
        offsets.replay("g", "t", 0, value(offset), log_offset)
    assert [committed(offsets.get("g", "t", 0, below)) for below in range(4)] == [None, 5, 6, 7]


def test_a_deleted_offset_is_told_until_its_tombstone_is_committed():
    offsets = Offsets()
    offsets.on_committed(1)
    offsets.replay("g", "t", 0, value(5), log_offset=0)
    offsets.replay("g", "t", 0, None, log_offset=1)
    assert not offsets.has_any("g")
    assert (groups_of(offsets)) == []
    assert committed(offsets.get("g", "t", 0, committed_below=1)) == 5
    assert offsets.topics("g", committed_below=1) == ["t"]
    assert list(offsets.of_topic("g", "t", committed_below=1)) == [0]
    assert offsets.get("g", "t", 0, committed_below=2) is None
    assert offsets.topics("g", committed_below=2) == []
    assert offsets.of_topic("g", "t", committed_below=2) == {}


def test_a_tombstone_of_what_never_was_changes_nothing():
    offsets = Offsets()
    offsets.replay("g", "t", 0, value(5), log_offset=0)
    offsets.replay("g", "t", 1, None, log_offset=1)
    offsets.replay("g", "other", 0, None, log_offset=2)
    offsets.replay("other", "t", 0, None, log_offset=3)
    assert (groups_of(offsets)) == ["g"]
    assert list(offsets.newest("g")) == ["t"]
    assert offsets.newest("other") == {}


def test_the_watermark_of_an_older_question_does_not_take_back_an_answer():
    offsets = Offsets()
    offsets.replay("g", "t", 0, value(5), log_offset=0)
    assert committed(offsets.get("g", "t", 0, committed_below=1)) == 5
    assert committed(offsets.get("g", "t", 0, committed_below=0)) == 5


def test_everything_that_is_committed_is_kept():
    stored = OffsetCommitValue(
        offset=9,
        leader_epoch=4,
        metadata="here",
        commit_timestamp=100,
        expire_timestamp=300,
        topic_id=b"i" * 16,
    )
    entry = CommittedOffset.of(stored)
    assert entry == CommittedOffset(9, 4, "here", 100, 300, b"i" * 16)
    plain = value(9)
    assert CommittedOffset.of(plain).expire_timestamp_ms is None


keys = st.tuples(st.sampled_from("gh"), st.sampled_from("tu"), st.integers(0, 1))
commits = st.lists(st.tuples(keys, st.none() | st.integers(0, 99)), max_size=30)


@examples
@given(commits, st.lists(st.integers(0, 30), max_size=10), st.integers(0, 30))
def test_answers_are_those_of_the_log_up_to_the_watermark(log, watermarks, loaded_below):
    """Against a model that reads the log from its beginning every time."""
    offsets = Offsets()
    offsets.on_committed(loaded_below)
    below = loaded_below
    pending = dict(enumerate(sorted(watermarks)))

    for log_offset, (key, offset) in enumerate(log):
        offsets.replay(*key, None if offset is None else value(offset), log_offset)
        below = max(below, min(pending.pop(log_offset, 0), log_offset + 1))
        told = dict(log[: min(below, log_offset + 1)])
        for each in {known for known, _ in log}:
            assert committed(offsets.get(*each, below)) == told.get(each)
        for group in "gh":
            assert [
                (group, topic, partition, entry.offset)
                for topic in offsets.topics(group, below)
                for partition, entry in offsets.of_topic(group, topic, below).items()
            ] == sorted((*each, told[each]) for each in told if each[0] == group and told[each] is not None)
        newest = dict(log[: log_offset + 1])
        assert {
            (group, topic, partition): entry.offset
            for group in groups_of(offsets)
            for topic, entries in offsets.newest(group).items()
            for partition, entry in entries.items()
        } == {each: offset for each, offset in newest.items() if offset is not None}
        assert all(offsets.has_any(group) for group in groups_of(offsets))


def test_nothing_is_kept_of_versions_that_the_watermark_has_passed():
    offsets = Offsets()
    for log_offset in range(100):
        offsets.replay("g", "t", 0, value(log_offset), log_offset)
    offsets.on_committed(100)
    assert not offsets._behind
    assert not offsets._in_flight


def aged():
    """Partition 0 was committed on day 0, partition 1 on day 5, partition 2 with a retention until day 2."""
    offsets = Offsets()
    offsets.replay("g", "t", 0, value(1), 0)
    offsets.replay("g", "t", 1, value(1, at_ms=5 * DAY_MS), 1)
    offsets.replay("g", "u", 2, value(1, expire_ms=2 * DAY_MS), 2)
    return offsets


@pytest.mark.parametrize(
    ("day", "since_day", "expired"),
    [
        (1, None, []),
        (2, None, [("u", 2)]),
        (7, None, [("t", 0), ("u", 2)]),
        (12, None, [("t", 0), ("t", 1), ("u", 2)]),
        (12, 6, [("u", 2)]),
        (13, 6, [("t", 0), ("t", 1), ("u", 2)]),
        (7, 0, [("t", 0), ("t", 1), ("u", 2)]),
    ],
)
def test_an_offset_expires_since_its_commit_or_since_the_group_became_empty(day, since_day, expired):
    since_ms = None if since_day is None else since_day * DAY_MS
    assert aged().expired("g", day * DAY_MS, 7 * DAY_MS, since_ms=since_ms) == expired


def test_offsets_of_topics_that_are_still_read_do_not_expire():
    assert aged().expired("g", 99 * DAY_MS, DAY_MS, is_subscribed="t".__eq__) == [("u", 2)]


def test_an_offset_that_is_just_being_committed_again_does_not_expire():
    offsets = aged()
    offsets.on_committed(3)
    offsets.replay("g", "t", 0, value(2, at_ms=8 * DAY_MS), 3)
    assert committed(offsets.get("g", "t", 0, committed_below=3)) == 1
    assert offsets.expired("g", 8 * DAY_MS, 7 * DAY_MS) == [("u", 2)]


def test_a_group_without_offsets_has_none_to_expire():
    assert Offsets().expired("g", DAY_MS, 1) == []
