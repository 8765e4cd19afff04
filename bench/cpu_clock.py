"""Processor time of other processes in nanoseconds, as ticks of 10 ms are too coarse. Linux has a clock for
each process, which counts all of its threads, also those that have ended."""

import time
from collections.abc import Iterable

_SCHEDULED = 2  # which of a process's clocks: what it ran for, in user mode and in the kernel


def cpu_ns(pid: int) -> int:
    return time.clock_gettime_ns(~pid << 3 | _SCHEDULED)


def cpu_seconds(pids: Iterable[int]) -> float:
    return sum(map(cpu_ns, pids)) / 1e9
