"""What a load could not make sense of, and the record by which an operator says to leave it out.

A record of an internal topic counts until a later one has its key, since compaction may remove it at any
time: so does one that cannot be read. A tombstone whose key cannot be read deletes nothing, and is never
damage. What still counts at the end of a log keeps its shard from being served, unless the log also holds a
*leave-out record* that names its offset (`ottla skip` writes it). Being in the log it is copied to every
replica, survives a restart and compaction, and can be looked up later; to Apache Kafka it is a record of an
unknown type, which is passed over.

A record of a transaction replaces an earlier one, readable or not, once the transaction is committed; if it
is aborted, the record never was. What cannot be read of a transaction that is still open counts, as it may
yet be committed.
"""

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final, NamedTuple

from ottla.coordinator.turn import StoredEnd, StoredRecord
from ottla.records.batch import NO_PRODUCER_ID

LEAVE_OUT_TYPE: Final = 0x4F54
"""Far from Kafka's types of record, which count up from 0."""
_KEY: Final = Struct(">hq")
_VALUE: Final = b"\0\0"


class Unreadable(NamedTuple):
    """A record that makes no sense, or all records of a batch."""

    offset: int
    problem: str


class _Latest(NamedTuple):
    """The last record of a key in a transaction, and what is wrong with it."""

    offset: int
    problem: str | None


class Damage:
    __slots__ = ("_batches", "_left_out", "_open", "_records")

    def __init__(self) -> None:
        self._records: dict[bytes, Unreadable] = {}
        self._open: dict[int, dict[bytes, _Latest]] = {}  # of transactions that have not ended, by producer
        self._batches: list[Unreadable] = []
        self._left_out: set[int] = set()

    def on_batch(self, unreadable: Unreadable) -> None:
        self._batches.append(unreadable)

    def on_record(self, record: StoredRecord, offset: int, take: Callable[[], str | None]) -> None:
        """The next record of the log. `take` takes it, and says what is wrong with it."""
        named = named_by(record)
        if named is not None:
            self._left_out.add(named)
            return
        problem = take()
        counts = problem is not None and record.value is not None
        if record.producer_id != NO_PRODUCER_ID:
            latest = self._open.get(record.producer_id, {})
            if counts or record.key in self._records or record.key in latest:
                latest[record.key] = _Latest(offset, problem if counts else None)
                self._open[record.producer_id] = latest
            return
        for latest in self._open.values():
            latest.pop(record.key, None)  # a later record counts, whenever the earlier one is committed
        if problem is not None and counts:
            self._records[record.key] = Unreadable(offset, problem)
        elif self._records:
            self._records.pop(record.key, None)

    def on_end(self, end: StoredEnd, take: Callable[[], str | None]) -> None:
        """The end of a transaction. `take` takes it, and says what is wrong with it."""
        problem = take()
        if problem is not None:
            self._batches.append(Unreadable(end.offset, problem))
        for key, latest in self._open.pop(end.producer_id, {}).items():
            if end.committed and latest.problem is not None:
                self._records[key] = Unreadable(latest.offset, latest.problem)
            elif end.committed:
                self._records.pop(key, None)

    def left(self) -> list[Unreadable]:
        """What counts, in the order of the log."""
        return [unreadable for unreadable in self._all() if unreadable.offset not in self._left_out]

    def left_out(self) -> list[Unreadable]:
        """What would count, had nobody said to leave it out."""
        return [unreadable for unreadable in self._all() if unreadable.offset in self._left_out]

    def _all(self) -> Iterator[Unreadable]:
        undecided = [
            Unreadable(latest.offset, latest.problem)
            for written in self._open.values()
            for latest in written.values()
            if latest.problem is not None
        ]
        return iter(sorted([*self._records.values(), *self._batches, *undecided]))


def leave_out(offset: int) -> StoredRecord:
    """The record that says: what cannot be read at `offset` is to be left out."""
    return StoredRecord(_KEY.pack(LEAVE_OUT_TYPE, offset), _VALUE)


def named_by(record: StoredRecord) -> int | None:
    """The offset that a leave-out record names; None for any other record, and for its tombstone."""
    if len(record.key) != _KEY.size or record.value is None:
        return None
    kind, offset = _KEY.unpack(record.key)
    return int(offset) if kind == LEAVE_OUT_TYPE else None
