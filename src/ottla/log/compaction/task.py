"""What goes to a worker process that cleans a log, and what comes back.

All of it is plain values: they cross a pipe.
"""

from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A closed segment."""

    base_offset: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanTask:
    """All a worker needs to know. Offsets from `first_dirty` to `upper` are dirty and may be cleaned."""

    name: str
    directory: str
    sources: tuple[Source, ...]
    first_dirty: int
    upper: int
    now_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    delete_retention_ms: int
    memory_bytes: int
    read_bytes: int
    bytes_per_second: float
    # (producer id, last offset of its last batch in its epoch or -1, epoch)
    producers: tuple[tuple[int, int, int], ...] = ()
    # The transactions that were aborted and began before `upper`, but have their marker behind it.
    aborted_beyond: tuple[tuple[int, int, int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Old segments and the size of the one, under the first one's base offset, that replaces them all."""

    bases: tuple[int, ...]
    size: int


@dataclass(slots=True, kw_only=True)
class CleanStats:
    bytes_read: int = 0
    bytes_written: int = 0
    map_bytes_read: int = 0
    records_read: int = 0
    records_written: int = 0
    keys: int = 0
    map_utilization: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanResult:
    """Everything below `end_offset` is clean once the groups are in place."""

    end_offset: int
    groups: tuple[Group, ...]
    stats: CleanStats = field(default_factory=CleanStats)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanFailed:
    """Why there is no result; `damaged` if it is what the log holds, and trying again would not help;
    `errno` if the disk refused something."""

    reason: str
    damaged: bool = False
    errno: int = 0


CleanOutcome: TypeAlias = CleanResult | CleanFailed
