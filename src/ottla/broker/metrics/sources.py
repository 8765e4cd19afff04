"""All metrics of the core."""

from ottla.base.metrics import Source
from ottla.broker.broker import Broker
from ottla.broker.metrics.readiness import ReadinessMetrics
from ottla.broker.metrics.replication import ReplicationMetrics

SOURCES: tuple[type, ...] = (ReadinessMetrics, ReplicationMetrics)


def sources_of(broker: Broker) -> list[Source]:
    readiness = ReadinessMetrics(broker.readiness, broker.coordinators)
    if not broker.readiness.is_open:
        return [readiness]  # another thread owns the broker
    return [readiness, ReplicationMetrics(broker.partitions, broker.image)]
