"""Timers of a shard: one per key, moved, cancelled, and popped in the order in which they run out."""

from ottla.coordinator.timers import Timers


def popped(timers: Timers, now_ms: int) -> list[object]:
    found = []
    while (key := timers.pop_due(now_ms)) is not None:
        found.append(key)
    return found


def test_timers_come_in_the_order_of_their_deadlines_and_equal_ones_as_they_were_set() -> None:
    timers = Timers()
    timers.apply({"late": 30, "first": 10, "second": 10})
    assert timers.next_ms() == 10
    assert popped(timers, 9) == []
    assert popped(timers, 10) == ["first", "second"]
    assert popped(timers, 100) == ["late"]
    assert timers.next_ms() is None


def test_a_timer_that_ran_out_is_no_longer_set_and_can_be_set_again() -> None:
    timers = Timers()
    timers.apply({"a": 10})
    assert timers.pop_due(10) == "a"
    assert timers.deadlines == {}
    timers.apply({"a": 10})
    assert popped(timers, 10) == ["a"]


def test_setting_a_timer_again_moves_it_either_way_and_it_runs_out_once() -> None:
    timers = Timers()
    timers.apply({"a": 10, "b": 20})
    timers.apply({"a": 30})
    timers.apply({"b": 5})
    assert timers.next_ms() == 5
    assert popped(timers, 29) == ["b"]
    assert popped(timers, 100) == ["a"]


def test_a_timer_moved_there_and_back_runs_out_once() -> None:
    timers = Timers()
    for deadline_ms in (10, 20, 10, 10):
        timers.apply({"a": deadline_ms})
    assert popped(timers, 100) == ["a"]


def test_setting_a_timer_to_what_it_is_costs_no_place_in_the_heap() -> None:
    timers = Timers()
    for _ in range(100):
        timers.apply({"a": 10})
    assert len(timers.heap) == 1


def test_a_cancelled_timer_never_runs_out_and_cancelling_what_is_not_set_changes_nothing() -> None:
    timers = Timers()
    timers.apply({"a": 10, "b": 20, "never set": None})
    timers.apply({"a": None})
    assert timers.next_ms() == 20
    assert popped(timers, 100) == ["b"]


def test_keys_need_no_order_among_themselves() -> None:
    timers = Timers()
    timers.apply({("a", 1): 10, "b": 10, 3: 10})
    assert popped(timers, 10) == [("a", 1), "b", 3]
