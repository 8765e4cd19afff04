"""All metrics of the core."""

from ottla.base.metrics import Source
from ottla.broker.broker import Broker
from ottla.broker.metrics.group_coordinator import GroupCoordinatorMetrics
from ottla.broker.metrics.groups import GroupMetrics
from ottla.broker.metrics.replication import ReplicationMetrics

SOURCES: tuple[type, ...] = (ReplicationMetrics, GroupCoordinatorMetrics, GroupMetrics)


def sources_of(broker: Broker) -> list[Source]:
    return [
        ReplicationMetrics(broker.partitions, broker.image),
        GroupCoordinatorMetrics(broker.coordinators),
        GroupMetrics(broker.coordinators, broker.settings, broker.group_lag),
    ]
