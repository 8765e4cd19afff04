"""What a broker's log says of a cleaning that is over, and of what is left to clean."""

import logging

from ottla.base.log_fields import fields
from ottla.log.compaction.cleaner import LastStable
from ottla.log.compaction.task import CleanFailed, CleanOutcome
from ottla.log.log import Log
from ottla.log.store import LogStore

logger = logging.getLogger(__name__)


def say_cleaned(
    store: LogStore, log: Log, outcome: CleanOutcome, last_stable: LastStable, now_ms: int
) -> None:
    """What became of a cleaning, and what is left to do."""
    topic_partition, cleaner = log.topic_partition, store.cleaner
    named = {"topic": topic_partition.topic, "partition": topic_partition.partition}
    if isinstance(outcome, CleanFailed):
        failure = cleaner.uncleanable.get(topic_partition)
        if failure is None:
            return  # nobody waits for it any more, or its directory says more
        later = "not before the next start" if outcome.damaged else f"in {failure.retry_ms - now_ms} ms"
        logger.error(
            "%s could not be compacted: %s; it is tried again %s", topic_partition, outcome.reason, later,
            extra=fields(**named, reason=outcome.reason),
        )  # fmt: skip
        return
    if store.get(topic_partition) is not log:
        return
    stats, debt = outcome.stats, cleaner.debt(last_stable, now_ms + store.wall_offset_ms)
    logger.info(
        "compacted %s to offset %d: %d bytes became %d, %d records became %d; "
        "%d logs with %d dirty bytes are left, %d cannot be compacted",
        topic_partition, outcome.end_offset, stats.bytes_read, stats.bytes_written,
        stats.records_read, stats.records_written,
        sum(dirt.is_due for dirt in debt), sum(dirt.dirty_bytes for dirt in debt), len(cleaner.uncleanable),
        extra=fields(
            **named, offset=outcome.end_offset, bytes=stats.bytes_written, records=stats.records_written
        ),
    )  # fmt: skip
