"""All metrics of a broker process: those of the core, and the shell's own."""

from ottla.base.metrics import Metric, Source, metrics_of
from ottla.broker.metrics import sources as core_sources
from ottla.shell.core import Core
from ottla.shell.metrics.connections import ConnectionMetrics
from ottla.shell.metrics.disks import DiskMetrics
from ottla.shell.metrics.keeper import KeeperMetrics
from ottla.shell.metrics.loop import LoopMetrics
from ottla.shell.metrics.process import ProcessMetrics
from ottla.shell.metrics.workers import WorkerMetrics

SOURCES: tuple[type, ...] = (
    *core_sources.SOURCES,
    ConnectionMetrics,
    DiskMetrics,
    KeeperMetrics,
    LoopMetrics,
    ProcessMetrics,
    WorkerMetrics,
)


def all_metrics() -> list[Metric]:
    """Every metric there is, for the page that lists them."""
    return [metric for source in SOURCES for metric in metrics_of(source)]


def sources_of(core: Core) -> list[Source]:
    return [
        *core_sources.sources_of(core.broker),
        ConnectionMetrics(core.connection_counts, core.broker),
        DiskMetrics(core.disk_room, core.broker.store.disks),
        KeeperMetrics(core.keeper_counts),
        LoopMetrics(core.stalls),
        ProcessMetrics(core.broker.id),
        WorkerMetrics(core.worker_times),
    ]
