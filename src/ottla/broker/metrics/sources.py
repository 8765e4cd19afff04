"""All metrics of the core."""

from ottla.base.metrics import Source
from ottla.broker.broker import Broker
from ottla.broker.metrics.controller import ControllerMetrics
from ottla.broker.metrics.replication import ReplicationMetrics
from ottla.broker.metrics.transactions import TransactionMetrics

SOURCES: tuple[type, ...] = (ReplicationMetrics, ControllerMetrics, TransactionMetrics)


def sources_of(broker: Broker) -> list[Source]:
    return [
        _replication(broker),
        ControllerMetrics(
            broker.image, broker.seat, broker.liveness, broker.controller_events, broker.cluster_events
        ),
        TransactionMetrics(
            broker.coordinators, broker.partitions, broker.settings.transaction_config.timeout_ms_max,
            broker.storage.wall_ms,
        ),
    ]  # fmt: skip


def _replication(broker: Broker) -> ReplicationMetrics:
    return ReplicationMetrics(
        broker.settings, broker.partitions, broker.image, broker.store.lost, broker.replica_counts,
        broker.replicas.fetchers, broker.proofs,
    )  # fmt: skip
