"""Incremental fetch sessions, KIP-227."""

import itertools

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import ZERO_UUID, TopicPartition
from ottla.replication.sessions import (
    CONSUMER_PARTITIONS_MAX,
    EPOCH_MAX,
    EVICTION_IDLE_MS,
    PARTITIONS_PER_SLOT,
    Sessions,
    Wanted,
)


def wanted(partition: int, *, topic: str = "t", topic_id: bytes = ZERO_UUID, offset: int = 0) -> Wanted:
    return Wanted(topic, topic_id, partition, offset, 1 << 20, -1, -1)


def sessions(slots: int = 2) -> Sessions:
    ids = itertools.count(1)
    return Sessions(slots, new_id=lambda: next(ids))


def code(table: Sessions, session_id: int, epoch: int, *, by_topic_id: bool = False) -> ErrorCode:
    with pytest.raises(ApiError) as refused:
        table.resume(session_id, epoch, by_topic_id=by_topic_id, now_ms=0)
    return refused.value.code


def test_a_session_goes_on_epoch_by_epoch() -> None:
    table = sessions()
    session = table.open([wanted(0)], by_topic_id=False, now_ms=0)
    assert session
    assert table.resume(session.id, 1, by_topic_id=False, now_ms=5) is session
    assert (session.epoch, session.used_ms) == (2, 5)


def test_what_is_out_of_step_is_refused_and_changes_nothing() -> None:
    table = sessions()
    session = table.open([wanted(0)], by_topic_id=False, now_ms=0)
    assert session
    assert code(table, 99, 1) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert code(table, session.id, 2) == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert code(table, session.id, 1, by_topic_id=True) == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert session.epoch == 1
    table.close(session.id)
    assert code(table, session.id, 1) == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_the_epoch_goes_around_to_one() -> None:
    table = sessions()
    session = table.open([], by_topic_id=False, now_ms=0)
    assert session
    session.epoch = EPOCH_MAX
    assert table.resume(session.id, EPOCH_MAX, by_topic_id=False, now_ms=0).epoch == 1


def test_an_update_keeps_what_was_sent_and_forgets_what_is_forgotten() -> None:
    table = sessions()
    session = table.open([wanted(0), wanted(1)], by_topic_id=False, now_ms=0)
    assert session
    session.wanted["t", 0].sent_high_watermark = 7
    session.update([wanted(0, offset=5), wanted(2)], [("t", 1), ("t", 9)])
    assert list(session.wanted) == [("t", 0), ("t", 2)]
    assert session.wanted["t", 0].fetch_offset == 5
    assert session.wanted["t", 0].sent_high_watermark == 7


def test_a_partition_that_gave_records_goes_to_the_end() -> None:
    table = sessions()
    session = table.open([wanted(0), wanted(1), wanted(2)], by_topic_id=False, now_ms=0)
    assert session
    session.rotate([session.wanted["t", 0], wanted(7)])
    assert [one.topic_partition for one in session.wanted.values()] == [
        TopicPartition("t", 1),
        TopicPartition("t", 2),
        TopicPartition("t", 0),
    ]


def test_an_id_is_the_key_before_and_after_its_topic_is_known() -> None:
    topic_id = bytes(range(16))
    assert wanted(0, topic="", topic_id=topic_id).key == wanted(0, topic="t", topic_id=topic_id).key


def test_a_full_table_gives_a_place_only_when_one_has_been_idle_long_enough() -> None:
    table = sessions(slots=2)
    first = table.open([], by_topic_id=False, now_ms=0)
    second = table.open([], by_topic_id=False, now_ms=1)
    assert first
    assert second
    table.resume(first.id, 1, by_topic_id=False, now_ms=2)
    assert table.open([], by_topic_id=False, now_ms=EVICTION_IDLE_MS) is None
    assert table.open([], by_topic_id=False, now_ms=EVICTION_IDLE_MS + 1)
    assert second.id not in table.by_id
    assert first.id in table.by_id


def test_a_follower_takes_the_place_of_the_smallest_consumer_and_no_consumer_a_followers() -> None:
    table = sessions(slots=2)
    large = table.open([wanted(0), wanted(1)], by_topic_id=False, now_ms=0)
    small = table.open([wanted(0)], by_topic_id=False, now_ms=0)
    assert large
    assert small
    assert table.open([wanted(p) for p in range(9)], by_topic_id=False, now_ms=1) is None
    first = table.open([], by_topic_id=False, now_ms=1, is_follower=True)
    assert first
    assert list(table.by_id) == [large.id, first.id]
    second = table.open([wanted(0)], by_topic_id=False, now_ms=1, is_follower=True)
    assert second
    assert list(table.by_id) == [first.id, second.id]
    assert table.open([wanted(p) for p in range(9)], by_topic_id=False, now_ms=2) is None
    assert table.open([wanted(p) for p in range(9)], by_topic_id=False, now_ms=2, is_follower=True) is None


def test_an_old_session_gives_its_place_to_a_larger_one_of_its_kind() -> None:
    table = sessions(slots=2)
    follower = table.open([wanted(0)], by_topic_id=False, now_ms=0, is_follower=True)
    consumer = table.open([wanted(0)], by_topic_id=False, now_ms=0)
    assert follower
    assert consumer
    old_ms = EVICTION_IDLE_MS + 1
    for session in (follower, consumer):  # in use until just now
        table.resume(session.id, 1, by_topic_id=False, now_ms=old_ms - 1)
    assert table.open([wanted(1)], by_topic_id=False, now_ms=old_ms) is None, "it is not larger"
    larger = table.open([wanted(1), wanted(2)], by_topic_id=False, now_ms=old_ms)
    assert larger
    assert list(table.by_id) == [follower.id, larger.id]
    assert table.open([wanted(p) for p in range(9)], by_topic_id=False, now_ms=old_ms) is None, (
        "both are safe"
    )


def test_consumers_give_up_their_partitions_for_a_follower_but_not_in_vain() -> None:
    table = sessions(slots=3)
    limit = 3 * PARTITIONS_PER_SLOT
    consumer = table.open([wanted(p) for p in range(limit - 2)], by_topic_id=False, now_ms=0)
    assert consumer
    assert (
        table.open([wanted(p) for p in range(limit + 1)], by_topic_id=False, now_ms=0, is_follower=True)
        is None
    )
    assert list(table.by_id) == [consumer.id]
    follower = table.open([wanted(0), wanted(1)], by_topic_id=False, now_ms=0, is_follower=True)
    assert follower
    assert list(table.by_id) == [consumer.id, follower.id], "there was room"
    table.update(follower, [wanted(2)], ())
    assert list(table.by_id) == [follower.id]


def test_an_id_in_use_is_not_given_twice() -> None:
    ids = iter([5, 5, 6])
    table = Sessions(3, new_id=lambda: next(ids))
    opened = [table.open([], by_topic_id=False, now_ms=0) for _ in range(2)]
    assert [session.id for session in opened if session] == [5, 6]


def test_with_no_slots_there_are_no_sessions() -> None:
    assert sessions(slots=0).open([], by_topic_id=False, now_ms=0) is None


def test_all_sessions_together_hold_a_bounded_number_of_partitions() -> None:
    table = sessions(slots=2)
    first = table.open([wanted(p) for p in range(2 * PARTITIONS_PER_SLOT - 1)], by_topic_id=False, now_ms=0)
    assert first
    assert table.open([wanted(0), wanted(1)], by_topic_id=False, now_ms=0) is None
    table.update(first, [wanted(0, offset=9)], ())
    assert table.open([wanted(0)], by_topic_id=False, now_ms=0)
    with pytest.raises(ApiError) as refused:
        table.update(first, [wanted(9_999)], ())
    assert refused.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert first.id not in table.by_id


def test_a_consumers_session_has_a_largest_size_and_a_followers_has_not() -> None:
    many = [wanted(p) for p in range(CONSUMER_PARTITIONS_MAX + 1)]
    table = Sessions(slots=1_000, new_id=iter(range(1, 100)).__next__)
    assert table.open(many, by_topic_id=False, now_ms=0) is None
    assert table.open(many, by_topic_id=False, now_ms=0, is_follower=True) is not None
    session = table.open(many[:-1], by_topic_id=False, now_ms=0)
    assert session is not None
    with pytest.raises(ApiError):
        table.update(session, many[-1:], ())
    assert session.id not in table.by_id


@pytest.mark.parametrize("name", ["x" * 250, "\N{PILE OF POO}"])
def test_names_that_no_topic_can_have_are_not_remembered(name: str) -> None:
    table = sessions()
    assert table.open([wanted(0), wanted(0, topic=name)], by_topic_id=False, now_ms=0) is None
    assert table.by_id == {}
    session = table.open([wanted(0, topic="x" * 249)], by_topic_id=False, now_ms=0)
    assert session
    with pytest.raises(ApiError) as refused:
        table.update(session, [wanted(1, topic=name)], ())
    assert refused.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert table.by_id == {}
