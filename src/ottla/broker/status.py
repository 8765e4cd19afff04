"""What a broker's disks and cleaner are doing: for the log now, for metrics and a console later.

The debt of compaction is what the cleaner has still to read; a log that cannot be cleaned keeps its part of
it and says why.
"""

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.base.ids import TopicPartition
from ottla.log.compaction.cleaner import Failure, Progress
from ottla.log.compaction.task import CleanFailed, CleanOutcome
from ottla.log.log import Log

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Debt:
    """How much of a compacted log is dirty; `is_due` if that is more than its config bears."""

    dirty_bytes: int
    ratio: float
    is_due: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionStatus:
    running: tuple[str, ...]
    debt: dict[TopicPartition, Debt]
    uncleanable: dict[TopicPartition, Failure]
    last_failure: tuple[TopicPartition, str] | None
    progress: Progress

    @property
    def dirty_bytes(self) -> int:
        return sum(one.dirty_bytes for one in self.debt.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """`offline` says why a directory is; `moving` how many offsets a move to a directory is behind."""

    offline: dict[str, str]
    lost: tuple[TopicPartition, ...]
    moving: dict[TopicPartition, tuple[str, int]]
    compaction: CompactionStatus


def status(broker: "Broker", now_ms: int) -> Status:
    store = broker.store
    cleaner = store.cleaner
    return Status(
        offline=dict(store.offline),
        lost=tuple(sorted(store.lost)),
        moving={id: (move.directory, move.lag) for id, move in store.moves.by_topic_partition.items()},
        compaction=CompactionStatus(
            running=tuple(task.name for task in cleaner.running),
            debt={
                dirt.log.topic_partition: Debt(dirt.dirty_bytes, dirt.ratio, dirt.is_due)
                for dirt in cleaner.debt(broker.last_stable_offset, broker.wall_ms(now_ms))
            },
            uncleanable=dict(cleaner.uncleanable),
            last_failure=cleaner.last_failure,
            progress=cleaner.progress,
        ),
    )


def say_cleaned(broker: "Broker", cleaned: Log, outcome: CleanOutcome, now_ms: int) -> None:
    """What became of a cleaning, and what is left to do."""
    id = cleaned.topic_partition
    if isinstance(outcome, CleanFailed):
        failure = broker.store.cleaner.uncleanable.get(id)
        if failure is None:
            return  # nobody waits for it any more, or its directory says more
        later = "not before the next start" if outcome.damaged else f"in {failure.retry_ms - now_ms} ms"
        log.error("%s could not be compacted: %s; it is tried again %s", id, outcome.reason, later)
        return
    if broker.store.get(id) is not cleaned:
        return
    stats, debt = outcome.stats, status(broker, now_ms).compaction
    log.info(
        "compacted %s to offset %d: %d bytes became %d, %d records became %d; "
        "%d logs with %d dirty bytes are left, %d cannot be compacted",
        id, outcome.end_offset, stats.bytes_read, stats.bytes_written,
        stats.records_read, stats.records_written,
        sum(one.is_due for one in debt.debt.values()), debt.dirty_bytes, len(debt.uncleanable),
    )  # fmt: skip
