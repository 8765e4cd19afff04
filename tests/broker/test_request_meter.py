"""What one request takes, by a clock that is moved by hand."""

import pytest

from ottla.base.metrics import Histogram
from ottla.broker.parked import Parked
from ottla.broker.request_counts import ApiCounts
from ottla.broker.request_meter import RequestMeter

VERSION, SIZE = 3, 100


class HandClock:
    """In microseconds, as histograms count them."""

    def __init__(self) -> None:
        self.now_us = 1_000_000

    def __call__(self) -> int:
        return self.now_us * 1_000


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def meter(clock: HandClock) -> RequestMeter:
    return RequestMeter(clock)


@pytest.fixture
def counts() -> ApiCounts:
    return ApiCounts("Produce", [0] * (VERSION + 1))


def durations(counts: ApiCounts) -> dict[str, int]:
    return {
        name: getattr(counts, name).total_us
        for name in ("at_once", "queue", "local", "remote", "send", "total")
        if sum(getattr(counts, name).counts)
    }


def parked() -> Parked:
    return Parked(keys=(), deadline_ms=0, ready=lambda _key, _now_ms: None, expire=lambda _now_ms: None)


def test_of_what_is_answered_at_once_there_is_one_duration(
    clock: HandClock, meter: RequestMeter, counts: ApiCounts
) -> None:
    meter.arrive(meter.clock_ns())
    meter.begin(counts, VERSION, SIZE)
    clock.now_us += 42
    meter.sent()
    assert durations(counts) == {"at_once": 42}
    assert (counts.versions, counts.request_bytes) == ([0, 0, 0, 1], SIZE)


def test_time_in_a_queue_and_time_parked_is_no_work(
    clock: HandClock, meter: RequestMeter, counts: ApiCounts
) -> None:
    meter.arrive(meter.clock_ns())
    meter.enqueue()
    clock.now_us += 1_000
    meter.dequeue()
    meter.begin(counts, VERSION, SIZE)
    clock.now_us += 30
    for _ in range(2):  # it waits for one thing, and then for another
        meter.park(parked())
        clock.now_us += 5_000
        meter.wake()
        clock.now_us += 7
    meter.finish()
    clock.now_us += 3
    meter.sent()
    assert durations(counts) == {
        "queue": 1_000, "local": 44, "remote": 10_000, "send": 3, "total": 11_047,
    }  # fmt: skip


def test_the_next_request_begins_when_the_answer_before_it_has_left(
    clock: HandClock, meter: RequestMeter, counts: ApiCounts
) -> None:
    meter.arrive(meter.clock_ns())
    for _ in range(2):  # both came in one read
        meter.begin(counts, VERSION, SIZE)
        clock.now_us += 10
        meter.sent()
    assert durations(counts) == {"at_once": 20}


def test_what_waits_for_the_turn_of_its_connection_is_in_a_queue(
    clock: HandClock, meter: RequestMeter, counts: ApiCounts
) -> None:
    meter.arrive(meter.clock_ns())
    clock.now_us += 20_000  # others are served
    meter.come_to_turn()
    meter.begin(counts, VERSION, SIZE)
    clock.now_us += 10
    meter.sent()
    assert durations(counts) == {"queue": 20_000, "local": 10, "remote": 0, "send": 0, "total": 20_010}


def test_bytes_that_come_while_an_answer_is_sent_do_not_begin_it_anew(
    clock: HandClock, meter: RequestMeter, counts: ApiCounts
) -> None:
    meter.arrive(meter.clock_ns())
    meter.begin(counts, VERSION, SIZE)
    clock.now_us += 9
    meter.begin_sending()
    clock.now_us += 500
    meter.arrive(meter.clock_ns())
    clock.now_us += 500
    meter.sent()
    assert durations(counts) == {"queue": 0, "local": 9, "remote": 0, "send": 1_000, "total": 1_009}


def test_a_request_counts_once(clock: HandClock, meter: RequestMeter, counts: ApiCounts) -> None:
    meter.begin(counts, VERSION, SIZE)
    for _ in range(3):
        meter.sent()
        clock.now_us += 1
    assert sum(counts.at_once.counts) == 1
    assert not sum(counts.total.counts)


def test_what_takes_minutes_counts_among_the_longest(
    clock: HandClock, meter: RequestMeter, counts: ApiCounts
) -> None:
    meter.arrive(meter.clock_ns())
    meter.begin(counts, VERSION, SIZE)
    meter.park(parked())
    clock.now_us += 600_000_000
    meter.wake()
    meter.finish()
    meter.sent()
    longest = Histogram()
    longest.observe(600_000_000)
    assert counts.total == counts.remote == longest


def test_an_answer_that_is_nobodys_leaves_no_trace_in_the_next(
    clock: HandClock, meter: RequestMeter, counts: ApiCounts
) -> None:
    meter.arrive(meter.clock_ns())
    meter.begin_sending()  # a token of SASL without a header, for example
    clock.now_us += 1_000
    meter.sent()
    meter.arrive(meter.clock_ns())
    meter.begin(counts, VERSION, SIZE)
    clock.now_us += 5
    meter.sent()
    assert durations(counts) == {"at_once": 5}
