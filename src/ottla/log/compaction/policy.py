"""Which logs need compaction, how badly, and which comes first.

    clean          below `first_dirty`: an earlier cleaning has seen it
    dirty          from there to `upper`: closed segments, committed, on disk, and old enough
    uncleanable    the rest: the active segment, what is above the last stable offset or the recovery point,
                   and segments with a record younger than min.compaction.lag.ms

A log is due when more than min.cleanable.dirty.ratio of its bytes are dirty, or when something in it is older
than max.compaction.lag.ms. The dirtiest comes first.

Not obvious: what is not on disk yet must not supersede what is; hence the recovery point, which Kafka leaves
out, relying on its replicas.
"""

from collections.abc import Iterable
from typing import NamedTuple

from ottla.base.config import LONG_MAX
from ottla.log.log import Log
from ottla.log.segment import Segment


class Dirt(NamedTuple):
    """How dirty a log is. `delay_ms` is for how long something has been older than the longest lag."""

    log: Log
    first_dirty: int
    upper: int
    clean_bytes: int
    dirty_bytes: int
    delay_ms: int

    @property
    def ratio(self) -> float:
        return self.dirty_bytes / max(self.clean_bytes + self.dirty_bytes, 1)

    @property
    def is_due(self) -> bool:
        if not self.dirty_bytes:
            return False
        return self.delay_ms > 0 or self.ratio > self.log.config.min_cleanable_dirty_ratio

    @property
    def segments(self) -> list[Segment]:
        """What a cleaning reads: the clean ones too, as they hold keys that the dirty ones replace."""
        return [segment for segment in self.log.segments if segment.base_offset < self.upper]


def measure(log: Log, last_stable_offset: int, wall_ms: int) -> Dirt:
    """`wall_ms` is the time of day, as records have it."""
    first_dirty = log.cleaned_to
    if not log.log_start_offset <= first_dirty <= log.log_end_offset:
        first_dirty = log.log_start_offset
    bound = min(last_stable_offset, log.recovery_point, log.active.base_offset)
    closed = log.segments[:-1]
    uppers = [segment.base_offset for segment in log.segments[1:]]
    lag_ms = log.config.min_compaction_lag_ms
    upper, clean_bytes, dirty_bytes = first_dirty, 0, 0
    dirty = []
    for segment, after in zip(closed, uppers, strict=True):
        if after <= first_dirty:
            clean_bytes += segment.size
            continue
        if after > bound or (lag_ms and segment.max_timestamp > wall_ms - lag_ms):
            break
        upper = after
        dirty_bytes += segment.size
        dirty.append(segment)
    return Dirt(log, first_dirty, upper, clean_bytes, dirty_bytes, _delay_ms(log, dirty, wall_ms))


def _delay_ms(log: Log, dirty: list[Segment], wall_ms: int) -> int:
    if log.config.max_compaction_lag_ms == LONG_MAX:
        return 0
    times = []
    for segment in dirty:
        log.segments.keep_open(segment)  # it may be opened, and must be closed in the end
        if segment.first_timestamp > 0:
            times.append(segment.first_timestamp)
    return max(wall_ms - log.config.max_compaction_lag_ms - min(times), 0) if times else 0


def dirtiest(candidates: Iterable[Dirt]) -> Dirt | None:
    """The log to clean next, of those that are due; the first by name among equals."""
    due = [dirt for dirt in candidates if dirt.is_due]
    return min(due, key=lambda dirt: (-dirt.ratio, dirt.log.topic_partition)) if due else None
