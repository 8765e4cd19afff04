"""The loop that serves everybody: how late it is, how busy, and what kept it."""

import time
from collections.abc import Iterator

from ottla.base.metrics import Family, counter, histogram
from ottla.shell.stalls import Stalls


class LoopMetrics:
    LAG = histogram(
        "ottla_loop_lag_seconds", "How late the loop is that serves everybody, measured five times a second."
    )
    CPU = counter(
        "ottla_loop_cpu_seconds_total",
        "Processor time of the loop's thread; at 1 s per second the broker can do no more.",
    )
    STALLS = counter(
        "ottla_stalls_total",
        "How often everybody had to wait for longer than ottla.stall.threshold.ms, by what they waited for.",
        "cause",
    )
    STALLED = counter("ottla_stall_seconds_total", "How long that was altogether.", "cause")

    def __init__(self, stalls: Stalls) -> None:
        self._stalls = stalls

    def read(self, now_ms: int) -> Iterator[Family]:  # noqa: ARG002 - as every source
        counts, total_us = dict(self._stalls.counts), dict(self._stalls.total_us)
        yield self.LAG, [((), self._stalls.lag)]
        yield self.CPU, [((), time.thread_time())]
        yield self.STALLS, [((cause,), count) for cause, count in counts.items()]
        yield self.STALLED, [((cause,), spent_us / 1e6) for cause, spent_us in total_us.items()]
