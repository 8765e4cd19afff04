"""Measures a cluster beside the pages, in a thread of its own, and keeps how values were.

While somebody looks it measures every INTERVAL_S, else more rarely; a cluster that takes long to measure is
measured less often, so that this is never more than a small part of what its brokers do.
"""

import logging
import threading
import time
from collections.abc import Callable, Hashable

from ottla.base.command_error import CommandError
from ottla.console.cluster.history import History, rate
from ottla.console.cluster.measurement import BYTES_IN, BYTES_OUT, Measurement, Measuring
from ottla.console.cluster.snapshot import Snapshot, is_internal

log = logging.getLogger(__name__)

INTERVAL_S = 5.0
IDLE_INTERVAL_S = 30.0
LOOKED_AT_S = 300.0
SHARE = 10  # a measurement of one second is followed by so many seconds without
LAGS_MAX = 1500

RECORDS = "records"
LAG = "lag"


class Sampler:
    def __init__(self, snapshot: Callable[[], Snapshot], measuring: Measuring) -> None:
        self.history = History()
        self._snapshot = snapshot
        self._measuring = measuring
        self._last: Measurement | None = None
        self._problem = ""
        self._looked_s = time.monotonic()
        self._first = threading.Event()
        self._wake = threading.Event()
        self._is_stopped = False
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def last(self, wait_s: float = 0.0) -> Measurement | None:
        """The last measurement; None if there is none within the time to wait."""
        self._looked_s = time.monotonic()
        self._start()
        self._first.wait(wait_s)
        return self._last

    def soon(self) -> None:
        """Something has changed: measure now."""
        self._measuring.forget()
        self._wake.set()

    def stop(self) -> None:
        with self._lock:
            self._is_stopped = True
        self._wake.set()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._is_stopped:
                self._thread = threading.Thread(target=self._run, name="ottla-console-sampler", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while not self._is_stopped:
            self._wake.clear()
            try:
                self._take(self._measuring.measure(self._snapshot()))
                self._problem = ""
            except CommandError as error:
                if self._problem != str(error):
                    log.info("the cluster cannot be measured: %s", error)
                self._problem = str(error)
            self._wake.wait(self._pause_s())

    def _pause_s(self) -> float:
        is_watched = time.monotonic() - self._looked_s < LOOKED_AT_S
        took_s = self._last.took_s if self._last else 0.0
        return max(INTERVAL_S if is_watched else IDLE_INTERVAL_S, SHARE * took_s)

    def _take(self, measured: Measurement) -> None:
        values: dict[Hashable, float] = {}
        if self._last is not None:
            seconds = measured.time_s - self._last.time_s
            measured.rates = topic_rates(self._last, measured, seconds)
            rates = [
                value for name, value in measured.rates.items() if value is not None and not is_internal(name)
            ]
            if rates:
                values[RECORDS] = sum(rates)
            values |= byte_rates(self._last, measured, seconds)
        values |= lags(measured)
        self.history.add(measured.time_s, values)
        self._last = measured
        self._first.set()


def topic_rates(before: Measurement, after: Measurement, seconds: float) -> dict[str, float | None]:
    """Records a second that came to each topic."""
    grown: dict[str, float] = {}
    for topic_partition, end in after.ends.items():
        own = rate(before.ends.get(topic_partition), end, seconds)
        if own is not None:
            grown[topic_partition[0]] = grown.get(topic_partition[0], 0.0) + own
    return dict(grown)


def byte_rates(before: Measurement, after: Measurement, seconds: float) -> dict[Hashable, float]:
    """Of the whole cluster and of each broker, where brokers say."""
    rates: dict[Hashable, float] = {}
    for name in (BYTES_IN, BYTES_OUT):
        for broker, metrics in after.metrics.items():
            own = rate(before.metrics.get(broker, {}).get(name), metrics.get(name), seconds)
            if own is not None:
                rates[name, broker] = own
                rates[name] = rates.get(name, 0.0) + own
    return rates


def lags(measured: Measurement) -> dict[Hashable, float]:
    """Of groups, then of their partitions as far as there is room."""
    values: dict[Hashable, float] = {
        (LAG, group.id): float(group.lag) for group in measured.groups.values() if group.lag is not None
    }
    for group in measured.groups.values():
        for position in group.positions:
            if position.lag is not None and len(values) < LAGS_MAX:
                values[LAG, group.id, position.topic, position.partition] = float(position.lag)
    return values
