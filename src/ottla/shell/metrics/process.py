"""The process and its interpreter, under the names that prometheus-client and others give these.

They are declared and read as all the others are. Where the system does not say something (/proc is Linux's),
it is left out.
"""

import asyncio
import contextlib
import gc
import os
import platform
import resource
import time
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from ottla.base.metrics import Family, Sample, counter, gauge
from ottla.base.version import VERSION

PROC = "/proc/self"


class ProcessMetrics:
    BUILD = gauge(
        "ottla_build_info",
        "1, with the broker's id, the versions of Ottla and of Python, and what the loop is made of.",
        "broker", "version", "python", "loop",
    )  # fmt: skip
    CPU = counter("process_cpu_seconds_total", "Processor time of the process, of users and of the system.")
    STARTED = gauge("process_start_time_seconds", "When the process began, in seconds since 1970.")
    RESIDENT = gauge("process_resident_memory_bytes", "Memory of the process that is in RAM.")
    VIRTUAL = gauge("process_virtual_memory_bytes", "Address space of the process.")
    DESCRIPTORS = gauge("process_open_fds", "Open file descriptors.")
    DESCRIPTORS_MAX = gauge("process_max_fds", "How many file descriptors may be open (ulimit -n).")
    THREADS = gauge("process_threads", "Threads of the process.")
    COLLECTIONS = counter(
        "python_gc_collections_total", "How often garbage was collected, by generation.", "generation"
    )
    COLLECTED = counter(
        "python_gc_objects_collected_total", "Objects that were found to be garbage.", "generation"
    )
    UNCOLLECTABLE = counter(
        "python_gc_objects_uncollectable_total", "Objects that are garbage and stay.", "generation"
    )

    def __init__(self, broker_id: int) -> None:
        self._broker_id = broker_id

    def read(self, now_ms: int) -> Iterator[Family]:  # noqa: ARG002 - as every source
        loop = type(asyncio.get_running_loop()).__module__.partition(".")[0]
        yield self.BUILD, [((str(self._broker_id), VERSION, platform.python_version(), loop), 1)]
        yield self.CPU, [((), time.process_time())]
        yield self.STARTED, [((), started_s) for started_s in _started_s()]
        stat = _stat()
        yield self.RESIDENT, [((), stat.resident_bytes)] if stat else []
        yield self.VIRTUAL, [((), stat.virtual_bytes)] if stat else []
        yield self.THREADS, [((), stat.threads)] if stat else []
        yield self.DESCRIPTORS, _descriptors()
        yield self.DESCRIPTORS_MAX, [((), resource.getrlimit(resource.RLIMIT_NOFILE)[0])]
        yield from self._collections()

    def _collections(self) -> Iterator[Family]:
        generations = gc.get_stats()
        for metric, name in (
            (self.COLLECTIONS, "collections"),
            (self.COLLECTED, "collected"),
            (self.UNCOLLECTABLE, "uncollectable"),
        ):
            yield metric, [((str(number),), stats[name]) for number, stats in enumerate(generations)]


class Stat(NamedTuple):
    threads: int
    started_ticks: int  # since the machine did
    virtual_bytes: int
    resident_bytes: int


def _stat() -> Stat | None:
    with contextlib.suppress(OSError):
        with open(f"{PROC}/stat", "rb") as file:
            numbers = file.read().rpartition(b")")[2].split()  # the name before it may hold anything
        pages = int(numbers[21])
        return Stat(int(numbers[17]), int(numbers[19]), int(numbers[20]), pages * os.sysconf("SC_PAGE_SIZE"))
    return None


@cache  # it does not move when somebody sets the clock
def _started_s() -> list[float]:
    stat = _stat()
    if stat is None:
        return []
    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - stat.started_ticks / os.sysconf("SC_CLK_TCK")
    return [time.time() - age_s]


def _descriptors() -> list[Sample]:
    """Newer kernels say it without a list, which is long where there are many connections."""
    with contextlib.suppress(OSError):
        return [((), os.stat(f"{PROC}/fd").st_size or len(os.listdir(f"{PROC}/fd")))]
    return []
