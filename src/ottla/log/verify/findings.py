"""What a check of a data directory is given, and what it says."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol, TypeAlias

from ottla.base.files import Files
from ottla.base.ids import TopicPartition
from ottla.records.batch import BatchHeader


class Severity(StrEnum):
    """An error is what a broker would lose, misread or not notice; a warning is damage that it finds and
    repairs by itself; a note is for people who want to know."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Finding(NamedTuple):
    """`at_start` is what a broker would do about it."""

    severity: Severity
    path: str
    problem: str
    at_start: str
    position: int | None = None
    offset: int | None = None


Findings: TypeAlias = Iterator[Finding]


@dataclass(slots=True)
class Totals:
    partitions: int = 0
    segments: int = 0
    batches: int = 0
    records: int = 0
    bytes: int = 0


@dataclass(slots=True, kw_only=True)
class Work:
    """How to go about it. `quick` reads headers only; `on_read` hears of the bytes that were looked at;
    `meanings` make sense of what the records of a partition say, where that matters to a broker."""

    files: Files
    quick: bool = False
    on_read: Callable[[int], None] = lambda _count: None
    totals: Totals = field(default_factory=Totals)
    meanings: Callable[[TopicPartition], "Meaning | None"] = lambda _topic_partition: None


class Meaning(Protocol):
    """Hears of all batches of a partition, in order, and says in the end what is wrong with them."""

    def on_batch(self, path: str, header: BatchHeader, batch: memoryview) -> None:
        """A sound batch. ApiError: it makes no sense as a whole."""

    def on_damage(self, path: str, offset: int, problem: str) -> None: ...
    def findings(self) -> Findings: ...
