"""All metrics of the core."""

from ottla.base.metrics import Source
from ottla.broker.broker import Broker
from ottla.broker.metrics.replication import ReplicationMetrics
from ottla.broker.metrics.requests import RequestMetrics

SOURCES: tuple[type, ...] = (
    ReplicationMetrics,
    RequestMetrics,
)


def sources_of(broker: Broker) -> list[Source]:
    return [
        ReplicationMetrics(broker.partitions, broker.image),
        RequestMetrics(broker.requests, broker.waiting, broker.slices),
    ]
