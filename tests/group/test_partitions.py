"""Partitions by topic, and as they are listed."""

from ottla.group.partitions import in_order, is_subset, to_partitions
from ottla.group.records import TopicPartitions

T, U = b"t" * 16, b"u" * 16


def test_partitions_are_listed_in_order_and_topics_without_any_are_left_out() -> None:
    by_id = in_order({U: {3, 1}, T: [0], b"z" * 16: ()})
    assert by_id == [(T, [0]), (U, [1, 3])]
    assert to_partitions(TopicPartitions(topic_id=topic, partitions=numbers) for topic, numbers in by_id) == {
        T: {0},
        U: {1, 3},
    }
    assert in_order({"b": {2, 1}, "a": [0], "none": ()}) == [("a", [0]), ("b", [1, 2])]


def test_a_topic_that_is_listed_twice_is_merged() -> None:
    listed = [TopicPartitions(topic_id=T, partitions=numbers) for numbers in ([1], [2, 2], [])]
    assert to_partitions([*listed, TopicPartitions(topic_id=U, partitions=[])]) == {T: {1, 2}}


def test_a_member_owns_a_subset_only_if_it_says_what_it_owns() -> None:
    assert is_subset({}, {})
    assert is_subset({T: frozenset({1})}, {T: frozenset({1, 2})})
    assert not is_subset({T: frozenset({1})}, {})
    assert not is_subset(None, {})
