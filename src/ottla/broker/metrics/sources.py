"""All metrics of the core."""

from ottla.base.metrics import Source
from ottla.broker.broker import Broker
from ottla.broker.metrics.cleaner import CleanerMetrics
from ottla.broker.metrics.label_limits import LabelLimits
from ottla.broker.metrics.logs import LogMetrics
from ottla.broker.metrics.partitions import PartitionMetrics
from ottla.broker.metrics.readiness import ReadinessMetrics
from ottla.broker.metrics.replication import ReplicationMetrics
from ottla.broker.metrics.topics import TopicMetrics

SOURCES: tuple[type, ...] = (
    ReadinessMetrics,
    ReplicationMetrics,
    TopicMetrics,
    LogMetrics,
    PartitionMetrics,
    CleanerMetrics,
)


def sources_of(broker: Broker) -> list[Source]:
    readiness = ReadinessMetrics(broker.readiness, broker.coordinators)
    if not broker.readiness.is_open:
        return [readiness]  # another thread owns the broker
    limits = LabelLimits(broker.settings, broker.traffic)
    return [
        readiness,
        ReplicationMetrics(broker.partitions, broker.image),
        TopicMetrics(broker.traffic),
        LogMetrics(broker.storage, limits),
        PartitionMetrics(broker.partitions, broker.image, limits),
        CleanerMetrics(broker.store),
    ]
