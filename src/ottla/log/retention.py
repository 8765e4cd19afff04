"""Which segments at the head of a log may go.

Only segments that lie wholly below the high watermark, oldest first, without gaps. A record's own timestamp
decides how old it is; a segment without timestamps is as old as its file. The segment being written may go
too (the caller rolls it first), unless it is empty.
"""

from collections.abc import Callable, Sequence

from ottla.log.config import LogConfig
from ottla.log.segment import Segment

Expired = Callable[[Segment, int | None], bool]


def deletable(
    segments: Sequence[Segment],
    config: LogConfig,
    *,
    log_start_offset: int,
    log_end_offset: int,
    high_watermark: int,
    now_ms: int,
) -> int:
    """How many segments, counted from the oldest, are to be deleted."""
    rules: list[Expired] = [lambda _, upper: upper is not None and upper <= log_start_offset]
    if config.deletes:
        rules += [_over_size(segments, config.retention_bytes), _over_age(config.retention_ms, now_ms)]
    return max(_count(segments, rule, log_end_offset, high_watermark) for rule in rules)


def _count(segments: Sequence[Segment], rule: Expired, log_end_offset: int, high_watermark: int) -> int:
    for at, segment in enumerate(segments):
        is_last = at + 1 == len(segments)
        upper = log_end_offset if is_last else segments[at + 1].base_offset
        if (
            upper > high_watermark
            or (is_last and not segment.size)
            or not rule(segment, None if is_last else upper)
        ):
            return at
    return len(segments)


def _over_size(segments: Sequence[Segment], retention_bytes: int) -> Expired:
    excess = sum(segment.size for segment in segments) - retention_bytes

    def rule(segment: Segment, _upper: int | None) -> bool:
        nonlocal excess
        if retention_bytes < 0 or excess < segment.size:
            return False
        excess -= segment.size
        return True

    return rule


def _over_age(retention_ms: int, now_ms: int) -> Expired:
    def rule(segment: Segment, _upper: int | None) -> bool:
        if retention_ms < 0:
            return False
        newest = segment.max_timestamp
        if newest < 0:
            newest = segment.files.modified_ms(segment.path())
        return now_ms - newest > retention_ms

    return rule
