"""Answers that wait."""

from typing import Any

from ottla.broker.parked import Parked, Waiting


class Asker:
    """Parks answers, and keeps what comes out."""

    def __init__(self) -> None:
        self.waiting = Waiting()
        self.answers: list[Any] = []
        self.ready: set[str] = set()

    def park(self, name: str, *keys: str, deadline_ms: int = 100, owner: int = 1) -> Parked:
        parked = Parked(
            keys=keys,
            deadline_ms=deadline_ms,
            ready=lambda key, now_ms: f"{name} by {key} at {now_ms}" if name in self.ready else None,
            expire=lambda now_ms: f"{name} expired at {now_ms}",
            owner=owner,
            reply=self.answers.append,
        )
        self.waiting.park(parked)
        return parked


def test_it_is_woken_by_its_keys_only_and_leaves_when_it_is_ready() -> None:
    asker = Asker()
    asker.park("a", "x", "y")
    asker.waiting.wake("z", 1)
    asker.waiting.wake("x", 2)
    assert asker.answers == []
    asker.ready.add("a")
    asker.waiting.wake("z", 3)
    asker.waiting.wake("y", 4)
    asker.waiting.wake("x", 5)
    assert asker.answers == ["a by y at 4"]
    assert (asker.waiting.by_key, asker.waiting.by_owner) == ({}, {})


def test_who_parks_hears_whether_its_deadline_is_the_next() -> None:
    waiting = Waiting()
    gone = Parked(keys=(), deadline_ms=100, ready=lambda *_: None, expire=lambda _: None, owner=1)
    assert waiting.park(gone)
    for deadline_ms, is_next in ((100, False), (101, False), (99, True)):
        parked = Parked(keys=(), deadline_ms=deadline_ms, ready=gone.ready, expire=gone.expire, owner=2)
        assert waiting.park(parked) is is_next


def test_who_shares_a_key_with_others_is_told_what_it_is_woken_for() -> None:
    asker = Asker()
    asker.park("a", "x")
    asker.ready.add("a")
    asker.waiting.wake("y", 1, about="something else")
    asker.waiting.wake("x", 2, about="one of many")
    assert asker.answers == ["a by one of many at 2"]


def test_it_leaves_at_its_deadline_if_nothing_happens() -> None:
    asker = Asker()
    asker.park("late", "x", deadline_ms=200)
    asker.park("early", "x", deadline_ms=100)
    assert asker.waiting.next_deadline_ms() == 100
    asker.waiting.on_tick(99)
    assert asker.answers == []
    asker.waiting.on_tick(150)
    assert asker.answers == ["early expired at 150"]
    assert asker.waiting.next_deadline_ms() == 200


def test_an_answer_that_left_does_not_expire() -> None:
    asker = Asker()
    asker.ready.add("a")
    asker.park("a", "x")
    asker.waiting.wake("x", 1)
    assert asker.waiting.next_deadline_ms() is None
    asker.waiting.on_tick(1_000)
    assert asker.answers == ["a by x at 1"]


def test_an_expired_place_in_the_heap_is_skipped() -> None:
    asker = Asker()
    asker.ready.add("a")
    asker.park("a", "x", deadline_ms=10)
    asker.park("b", "y", deadline_ms=20)
    asker.waiting.wake("x", 1)
    asker.waiting.on_tick(20)
    assert asker.answers == ["a by x at 1", "b expired at 20"]


def test_what_belongs_to_a_closed_connection_is_dropped() -> None:
    asker = Asker()
    asker.park("a", "x", owner=1)
    asker.park("b", "x", owner=2)
    asker.waiting.drop(1)
    asker.waiting.drop(3)
    asker.ready |= {"a", "b"}
    asker.waiting.wake("x", 1)
    assert asker.answers == ["b by x at 1"]
    assert list(asker.waiting) == []


def test_a_wake_may_park_again() -> None:
    asker = Asker()
    asker.ready.add("a")
    parked = asker.park("a", "x")
    parked.reply = lambda answer: (asker.answers.append(answer), asker.park("again", "x"))[0]
    asker.waiting.wake("x", 1)
    assert asker.answers == ["a by x at 1"]
    assert len(list(asker.waiting)) == 1


def test_what_has_left_takes_no_room_until_its_deadline() -> None:
    asker = Asker()
    asker.park("stays", "y", deadline_ms=7)
    asker.ready.add("a")
    for _ in range(2_000):
        parked = asker.park("a", "x", deadline_ms=7 * 24 * 3600 * 1000)
        asker.waiting.wake("x", 1)
        assert parked.keys == ()
    assert len(asker.answers) == 2_000
    assert len(asker.waiting.deadlines) <= 65
    assert asker.waiting.next_deadline_ms() == 7
    asker.waiting.on_tick(7)
    assert asker.answers[-1] == "stays expired at 7"
    assert asker.waiting.parked == 0


def test_in_turn_those_that_cost_least_are_woken_as_long_as_there_is_room_and_the_first_in_any_case() -> None:
    asker, room = Asker(), 40
    for name, cost in (("first", 60), ("huge", 90), ("small", 10), ("middle", 20)):
        asker.ready.add(name)
        asker.park(name, "round").cost = cost

    def spend(answer: str) -> None:
        nonlocal room
        asker.answers.append(answer)
        room -= {"first": 60, "huge": 90, "small": 10, "middle": 20}[answer.split()[0]]

    for parked in asker.waiting:
        parked.reply = spend
    asker.waiting.wake_in_turn("round", lambda: room, 1)
    assert [answer.split()[0] for answer in asker.answers] == ["small", "middle", "first"]
    asker.waiting.wake_in_turn("round", lambda: room, 2)
    assert asker.answers[-1] == "huge by round at 2"
    asker.waiting.wake_in_turn("round", lambda: room, 3)
    assert len(asker.answers) == 4
