"""One operation on a shard: what it decided. Answers and records leave together, or not at all."""

import sys
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from ottla.records.batch import NO_PRODUCER_ID

PIECE_BYTES: Final = 512 * 1024
RECORD_OVERHEAD_BYTES: Final = 32

TimerKey: TypeAlias = Hashable


class StoredRecord(NamedTuple):
    """A record of an internal topic; no value: a tombstone. With a producer id it is part of a transaction of
    that producer, and means nothing before the transaction is committed."""

    key: bytes
    value: bytes | None
    producer_id: int = NO_PRODUCER_ID


class StoredEnd(NamedTuple):
    """The marker of an internal topic that ends a producer's transaction."""

    producer_id: int
    committed: bool
    offset: int


class Writer(NamedTuple):
    """The transactional producer in whose name records are written, and its epoch."""

    producer_id: int
    epoch: int


@dataclass(slots=True, eq=False)
class Answer:
    """An answer somebody waits for. It has been given when `reply` is set, at `given_ms`, and may be sent
    once everything below `after_offset` of the shard's partition is committed, and it is certain that nobody
    else coordinated at that time."""

    reply: Any = None
    after_offset: int = 0
    given_ms: int = 0


class Turn:
    """`now_ms` is for timers. What is stored, and compared with what was stored, is `wall_ms`, the time of
    day: the steady clock of another broker, or of this one after a restart, shows something else."""

    __slots__ = (
        "answers", "batch_bytes_max", "events", "is_divisible", "is_replayed", "now_ms", "records", "then",
        "timers", "wall_ms", "writer",
    )  # fmt: skip

    # Not a dataclass: those take twice as long to make their lists, and one is made for every request.
    def __init__(self, now_ms: int, wall_ms: int, batch_bytes_max: int = sys.maxsize) -> None:
        self.now_ms = now_ms
        self.wall_ms = wall_ms
        self.batch_bytes_max = batch_bytes_max  # what is not divisible must fit into this
        self.records: list[StoredRecord] = []
        self.answers: list[tuple[Answer, Any]] = []
        self.timers: dict[TimerKey, int | None] = {}
        self.then: list[Callable[[], None]] = []
        self.events: list[object] = []
        self.is_replayed = True
        self.is_divisible = False  # its records stand each for itself, and need not be one batch
        self.writer: Writer | None = None  # whose transaction its records are part of, all of them

    def write(self, *records: StoredRecord) -> None:
        self.records.extend(records)

    def answer(self, answer: Answer, reply: Any) -> None:
        """Give an answer, to be sent when what this turn writes is committed."""
        self.answers.append((answer, reply))

    def once_stored(self, then: Callable[[], None]) -> None:
        """What to do to state that is not stored, but only if the records are. It may answer, and set timers;
        it writes nothing."""
        self.then.append(then)

    def tell(self, event: object) -> None:
        """What others are to hear of, once what this turn writes is stored."""
        self.events.append(event)

    def set_timer(self, key: TimerKey, deadline_ms: int) -> None:
        """One timer per key; setting it again moves it."""
        self.timers[key] = deadline_ms

    def cancel_timer(self, key: TimerKey) -> None:
        self.timers[key] = None


def pieces(records: list[StoredRecord]) -> Iterator[list[StoredRecord]]:
    """The records of a divisible turn, in lists that are stored one after the other."""
    piece: list[StoredRecord] = []
    size = 0
    for record in records:
        size += size_of(record)
        if piece and size > PIECE_BYTES:
            yield piece
            piece, size = [], size_of(record)
        piece.append(record)
    if piece:
        yield piece


def size_of(record: StoredRecord) -> int:
    """About what it takes in the log."""
    return len(record.key) + len(record.value or b"") + RECORD_OVERHEAD_BYTES
