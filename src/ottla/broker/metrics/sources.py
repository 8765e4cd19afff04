"""All metrics of the core."""

from ottla.base.metrics import Source
from ottla.broker.broker import Broker
from ottla.broker.metrics.replication import ReplicationMetrics

SOURCES: tuple[type, ...] = (ReplicationMetrics,)


def sources_of(broker: Broker) -> list[Source]:
    return [ReplicationMetrics(broker.partitions, broker.image)]
