"""The rate that replication traffic keeps to."""

from ottla.replication.throttle import SAMPLE_MS, SAMPLES, Throttle


def test_a_silence_is_not_too_much() -> None:
    assert not Throttle().is_exceeded(0, 0)


def test_more_than_the_rate_over_the_window_is_too_much() -> None:
    throttle = Throttle()
    throttle.record(10_000, 0)
    assert not throttle.is_exceeded(1_000, 500)
    throttle.record(1, 500)
    assert throttle.is_exceeded(1_000, 500)
    assert not throttle.is_exceeded(1_000, 10_500), "the same bytes over a longer time"


def test_old_bytes_are_forgotten() -> None:
    throttle = Throttle()
    throttle.record(1 << 30, 0)
    assert throttle.is_exceeded(1_000, SAMPLES * SAMPLE_MS - 1)
    assert not throttle.is_exceeded(1_000, SAMPLES * SAMPLE_MS)
    assert throttle.total == 0


def test_samples_are_seconds() -> None:
    throttle = Throttle()
    for now_ms in range(0, 3_000, 100):
        throttle.record(1, now_ms)
    assert list(throttle.samples) == [(0, 10), (1_000, 10), (2_000, 10)]
