"""All metrics of the core."""

from ottla.base.metrics import Source
from ottla.broker.broker import Broker
from ottla.broker.metrics.broker_state import BrokerStateMetrics
from ottla.broker.metrics.cleaner import CleanerMetrics
from ottla.broker.metrics.controller import ControllerMetrics
from ottla.broker.metrics.group_coordinator import GroupCoordinatorMetrics
from ottla.broker.metrics.groups import GroupMetrics
from ottla.broker.metrics.label_limits import LabelLimits
from ottla.broker.metrics.logs import LogMetrics
from ottla.broker.metrics.partitions import PartitionMetrics
from ottla.broker.metrics.readiness import ReadinessMetrics
from ottla.broker.metrics.replication import ReplicationMetrics
from ottla.broker.metrics.requests import RequestMetrics
from ottla.broker.metrics.topics import TopicMetrics
from ottla.broker.metrics.transactions import TransactionMetrics

SOURCES: tuple[type, ...] = (
    ReadinessMetrics,
    BrokerStateMetrics,
    RequestMetrics,
    TopicMetrics,
    LogMetrics,
    CleanerMetrics,
    PartitionMetrics,
    ReplicationMetrics,
    ControllerMetrics,
    GroupCoordinatorMetrics,
    GroupMetrics,
    TransactionMetrics,
)


def sources_of(broker: Broker) -> list[Source]:
    first: list[Source] = [
        ReadinessMetrics(broker.readiness, broker.coordinators),
        BrokerStateMetrics(broker.readiness, broker.departure),
    ]
    if not broker.readiness.is_open:
        return first  # another thread owns the broker
    limits = LabelLimits(broker.settings, broker.traffic)
    return [
        *first,
        RequestMetrics(broker.requests, broker.waiting, broker.slices),
        TopicMetrics(broker.traffic),
        LogMetrics(broker.storage, limits),
        CleanerMetrics(broker.store),
        PartitionMetrics(broker.partitions, broker.image, limits),
        _replication(broker, limits),
        _controller(broker),
        GroupCoordinatorMetrics(broker.coordinators),
        GroupMetrics(broker.coordinators, broker.settings, broker.group_lag),
        _transactions(broker),
    ]


def _replication(broker: Broker, limits: LabelLimits) -> ReplicationMetrics:
    return ReplicationMetrics(
        limits, broker.partitions, broker.image, broker.store.lost, broker.replica_counts,
        broker.replicas.fetchers, broker.proofs,
    )  # fmt: skip


def _controller(broker: Broker) -> ControllerMetrics:
    return ControllerMetrics(
        broker.image, broker.seat, broker.liveness, broker.controller_events, broker.cluster_events
    )


def _transactions(broker: Broker) -> TransactionMetrics:
    return TransactionMetrics(
        broker.coordinators, broker.partitions, broker.settings.transaction_config.timeout_ms_max,
        broker.storage.wall_ms,
    )  # fmt: skip
