"""Log lines about many partitions at once."""

import logging

import pytest

from ottla.base.ids import TopicPartition
from ottla.broker.event_digest import TICKS_MAX, EventDigest

log = logging.getLogger("ottla.test_digest")


def lead(digest: EventDigest, *names: str, leader: int = 1, level: int = logging.INFO) -> None:
    for name in names:
        digest.add(log, level, "%s: broker %d leads", name, leader, leader=leader)


@pytest.fixture(autouse=True)
def _at_info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


def test_one_line_for_each_cause_with_a_count_and_the_first_names(caplog: pytest.LogCaptureFixture) -> None:
    digest = EventDigest()
    lead(digest, "a-0", "a-1", "a-2", "a-3", "a-4")
    lead(digest, "b-0", leader=2)
    digest.say()
    assert caplog.messages == ["a-0, a-1, a-2 and 2 more: broker 1 leads", "b-0: broker 2 leads"]
    assert caplog.records[0].__dict__["fields"] == {"leader": 1, "partitions": 5}
    digest.say()
    assert len(caplog.messages) == 2


def test_what_happens_twice_to_a_partition_counts_once(caplog: pytest.LogCaptureFixture) -> None:
    """After a start a broker leads in the epoch that it finds, and in the next one that it is given."""
    digest = EventDigest()
    lead(digest, "a-0", "a-1", "a-2", "a-3")
    lead(digest, "a-0", "a-1", "a-2", "a-3")
    digest.say()
    assert caplog.messages == ["a-0, a-1, a-2 and 1 more: broker 1 leads"]


def test_a_line_about_a_single_partition_or_topic_has_it_as_a_field(caplog: pytest.LogCaptureFixture) -> None:
    digest = EventDigest()
    digest.add(log, logging.INFO, "%s: leads", TopicPartition("a", 7))
    digest.add(log, logging.INFO, "topic %s: deleted", "b", counted="topics")
    digest.say()
    assert [record.__dict__["fields"] for record in caplog.records] == [
        {"topic": "a", "partition": 7, "partitions": 1},
        {"topic": "b", "topics": 1},
    ]


def test_a_line_waits_until_nothing_is_added_for_a_tick(caplog: pytest.LogCaptureFixture) -> None:
    digest = EventDigest()
    lead(digest, "a-0")
    digest.on_tick()
    lead(digest, "a-1")
    digest.on_tick()
    assert not caplog.messages
    digest.on_tick()
    assert caplog.messages == ["a-0, a-1: broker 1 leads"]


def test_a_line_does_not_wait_for_ever(caplog: pytest.LogCaptureFixture) -> None:
    digest = EventDigest()
    for number in range(TICKS_MAX):
        lead(digest, f"a-{number}")
        digest.on_tick()
    assert caplog.messages == [f"a-0, a-1, a-2 and {TICKS_MAX - 3} more: broker 1 leads"]


def test_what_an_operator_must_know_does_not_wait(caplog: pytest.LogCaptureFixture) -> None:
    digest = EventDigest()
    lead(digest, "a-0")
    lead(digest, "a-1", level=logging.WARNING)
    digest.say(logging.WARNING)
    assert caplog.messages == ["a-1: broker 1 leads"]


def test_at_debug_each_has_a_line_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    lead(EventDigest(), "a-0", "a-1")
    assert caplog.messages == ["a-0: broker 1 leads", "a-1: broker 1 leads"]
