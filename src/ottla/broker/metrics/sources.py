"""All metrics of the core."""

from ottla.base.metrics import Source
from ottla.broker.broker import Broker
from ottla.broker.metrics.group_coordinator import GroupCoordinatorMetrics
from ottla.broker.metrics.groups import GroupMetrics
from ottla.broker.metrics.readiness import ReadinessMetrics
from ottla.broker.metrics.replication import ReplicationMetrics

SOURCES: tuple[type, ...] = (ReadinessMetrics, ReplicationMetrics, GroupCoordinatorMetrics, GroupMetrics)


def sources_of(broker: Broker) -> list[Source]:
    readiness = ReadinessMetrics(broker.readiness, broker.coordinators)
    if not broker.readiness.is_open:
        return [readiness]  # another thread owns the broker
    return [
        readiness,
        ReplicationMetrics(broker.partitions, broker.image),
        GroupCoordinatorMetrics(broker.coordinators),
        GroupMetrics(broker.coordinators, broker.settings, broker.group_lag),
    ]
