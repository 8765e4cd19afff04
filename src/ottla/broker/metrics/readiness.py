"""Whether a broker is ready, and how far its start has come.

As long as the broker is not open, this is all that may be read of it.
"""

from collections.abc import Iterator

from ottla.base.metrics import Family, gauge
from ottla.broker.coordinators import Coordinators
from ottla.broker.readiness import REASONS, Readiness


class ReadinessMetrics:
    READY = gauge("ottla_ready", "1 if this broker can answer for what it leads (/health/ready).")
    NOT_READY = gauge("ottla_not_ready", "1 for each reason why this broker is not ready.", "reason")
    TO_RECOVER = gauge(
        "kafka_log_logmanager_remaininglogstorecover",
        "Logs of a directory that are not open yet, after a start.",
        "dir",
    )
    LOADING = gauge(
        "ottla_coordinator_loading_partitions",
        "Partitions of internal topics that a coordinator is reading.",
        "topic",
    )

    def __init__(self, readiness: Readiness, coordinators: Coordinators) -> None:
        self._readiness = readiness
        self._coordinators = coordinators

    def read(self, now_ms: int) -> Iterator[Family]:  # noqa: ARG002 - as every source
        readiness = self._readiness
        names = {reason.name for reason in readiness.reasons()}
        yield self.READY, [((), int(not names))]
        yield self.NOT_READY, [((name,), int(name in names)) for name in REASONS]
        remaining = dict(readiness.progress.remaining)
        yield self.TO_RECOVER, [((path,), count) for path, count in remaining.items()]
        loading = self._coordinators.loading if readiness.is_open else {}
        yield self.LOADING, [((topic,), count) for topic, count in loading.items()]
