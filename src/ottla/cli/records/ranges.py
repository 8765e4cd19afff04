"""Where `ottla consume` begins and ends in each partition: offsets, times, counts from the end."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ottla.base.command_error import USAGE, CommandError
from ottla.base.times import parse_ms

EARLIEST, LATEST = "earliest", "latest"
_NAMES = {"earliest": EARLIEST, "beginning": EARLIEST, "latest": LATEST, "end": LATEST}
_KINDS = "a number, -N, beginning (or earliest), end (or latest), s@TIME or e@TIME"


@dataclass(frozen=True)
class Wanted:
    """What was asked for: `start` is EARLIEST, LATEST, or a number as text, from the end if negative."""

    start: str
    since_ms: int | None = None
    until_ms: int | None = None
    last: int | None = None  # of all partitions together, before where they end

    @property
    def is_placed(self) -> bool:
        return self.start not in (EARLIEST, LATEST) or self.since_ms is not None or self.last is not None


def wanted(
    *,
    from_beginning: bool,
    offsets: list[str],
    since: str | None,
    until: str | None,
    last: int | None,
    follow: bool,
) -> Wanted:
    """CommandError for what contradicts itself, ValueError for what is no time."""
    now_ms = int(time.time() * 1000)
    starts = [offset for offset in offsets if not offset.startswith(("s@", "e@"))]
    begins = [
        *([since] if since is not None else []),
        *(offset[2:] for offset in offsets if offset[:2] == "s@"),
    ]
    ends = [
        *([until] if until is not None else []),
        *(offset[2:] for offset in offsets if offset[:2] == "e@"),
    ]
    if from_beginning + len(starts) + len(begins) + (last is not None) > 1:
        raise CommandError("--from-beginning, --offset, --since and --last exclude each other", USAGE)
    if len(ends) > 1 or (ends and follow):
        raise CommandError("--until is said once, and not with --follow, which has no end", USAGE)
    if last is not None and follow:
        raise CommandError("--last has an end: leave out --follow, or use --offset -N", USAGE)
    asked = Wanted(
        LATEST if follow and not from_beginning else EARLIEST,
        parse_ms(begins[0], now_ms) if begins else None,
        parse_ms(ends[0], now_ms) if ends else None,
        last,
    )
    if asked.since_ms is not None and asked.until_ms is not None and asked.until_ms <= asked.since_ms:
        raise CommandError(f"--until {ends[0]} is not after --since {begins[0]}: nothing is between", USAGE)
    return replace(asked, start=_start(starts[0])) if starts else asked


def _start(offset: str) -> str:
    if offset in _NAMES:
        return _NAMES[offset]
    if not offset.removeprefix("-").isdecimal():
        raise CommandError(f"--offset is {_KINDS}, not {offset!r}", USAGE)
    return offset


def first_offset(start: str, partition: int, low: int, high: int) -> int:
    if start == EARLIEST:
        return low
    if start == LATEST:
        return high
    number = int(start)
    if start.startswith("-"):
        return max(low, high + number)
    if not low <= number <= high:
        there = f"begins at {low} and ends before {high}" if low < high else "is empty"
        raise CommandError(f"offset {number} is not there: partition {partition} {there}; see --partition")
    return number


def narrowed(
    asked: Wanted,
    bounds: Mapping[int, tuple[int, int]],
    since: Mapping[int, int | None],
    until: Mapping[int, int | None],
) -> dict[int, tuple[int, int]]:
    """From where to where each partition is read. `bounds` are where they begin and end; `since` and `until`
    the first offsets at those times, where there are some."""
    ranges = {}
    for number, (low, high) in bounds.items():
        first = first_offset(asked.start, number, low, high)
        if asked.since_ms is not None:
            at_time = since[number]
            first = high if at_time is None else at_time
        after = until.get(number) if asked.until_ms is not None else None
        ranges[number] = (first, high if after is None else min(after, high))
    return ranges
