"""One operation on a shard: what it decided. Answers and records leave together, or not at all."""

import sys
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from ottla.records.batch import NO_PRODUCER_ID

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


@dataclass(slots=True)
class Turn:
    """`now_ms` is for timers. What is stored, and compared with what was stored, is `wall_ms`, the time of
    day: the steady clock of another broker, or of this one after a restart, shows something else."""

    now_ms: int
    wall_ms: int
    records: list[StoredRecord] = field(default_factory=list)
    answers: list[tuple[Answer, Any]] = field(default_factory=list)
    timers: dict[TimerKey, int | None] = field(default_factory=dict)
    batch_bytes_max: int = sys.maxsize  # what is not divisible must fit into this
    is_replayed: bool = True
    is_divisible: bool = False  # its records stand each for itself, and need not be one batch
    writer: Writer | None = None  # whose transaction its records are part of, all of them
    then: list[Callable[[], None]] = field(default_factory=list)
    events: list[object] = field(default_factory=list)

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
