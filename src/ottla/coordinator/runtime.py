"""Runs operations on shards: append what was decided, replay it, let the answers go when it is committed.

A shard is loaded by replaying its partition's log when this broker becomes its leader, and dropped when it
stops being that. Loading is keyed by (partition, leader epoch), so that doing it twice, or late, changes
nothing. An operation on a shard that is not here is refused: NOT_COORDINATOR.

`next_ms` is when a timer may run out, or earlier if that one was cancelled.

Rules: if the append fails, nothing was replayed and no answer given, so state and log agree; a shard that
had changed in memory anyway is loaded again, and who waited for it is refused; if its disk failed, it is
gone. What an operation replies depends on what it wrote *and* on everything written before it, so an answer
waits for the log's end even if the operation wrote nothing. A timer whose turn could not be
stored is tried again later: nobody is there to hear of it.

The records of a turn are one batch, all or nothing, and a batch has a largest size. A turn whose records do
not depend on each other says so (`is_divisible`) and is written in pieces, each replayed as it is stored. A
record too large even alone is left out, so that it does not hold up the others for ever; if somebody waits
for the turn, they are told once the others are stored.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Generic, Protocol, TypeVar

from ottla.base.errors import ApiError, ErrorCode
from ottla.coordinator.timers import Timers
from ottla.coordinator.turn import Answer, StoredRecord, TimerKey, Turn

log = logging.getLogger(__name__)

RETRY_MS: Final = 500
PIECE_BYTES: Final = 512 * 1024
RECORD_OVERHEAD_BYTES: Final = 32
TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


class Shard(Protocol):
    """The state behind one partition of an internal topic."""

    def replay(self, record: StoredRecord, offset: int, timestamp_ms: int) -> None: ...
    def on_committed(self, below: int) -> None: ...
    def on_loaded(self, turn: Turn) -> None: ...
    def on_timer(self, turn: Turn, key: TimerKey) -> None: ...


S = TypeVar("S", bound=Shard)


class Journal(Protocol):
    """The partition a shard is stored in, as the broker gives it."""

    @property
    def end_offset(self) -> int: ...
    @property
    def committed_offset(self) -> int: ...
    def append(self, records: list[StoredRecord], now_ms: int) -> int:
        """Write the records as one batch; the offset of the first."""

    def stored(self) -> Iterable[tuple[StoredRecord, int, int]]:
        """Everything that is stored, as (record, offset, timestamp)."""


@dataclass(slots=True)
class Loaded(Generic[S]):
    index: int
    shard: S
    journal: Journal
    leader_epoch: int
    timers: Timers = field(default_factory=Timers)


@dataclass(slots=True)
class Runtime(Generic[S]):
    """The shards this broker coordinates. `on_answered` is called with every answer that has been given."""

    new_shard: Callable[[int], S]
    on_answered: Callable[[Answer, int], None]
    on_reloaded: Callable[[int, int], None] = lambda _index, _now_ms: None
    shards: dict[int, Loaded[S]] = field(default_factory=dict)
    next_ms: int | None = None

    def load(self, index: int, journal: Journal, leader_epoch: int, now_ms: int) -> None:
        """Take up a shard from what its journal holds."""
        known = self.shards.get(index)
        if known is None or known.leader_epoch < leader_epoch:
            self._load(index, journal, leader_epoch, now_ms)

    def _load(self, index: int, journal: Journal, leader_epoch: int, now_ms: int) -> None:
        self.unload(index)  # a journal that cannot be read leaves nothing behind
        shard = self.new_shard(index)
        shard.on_committed(journal.committed_offset)
        for record, offset, timestamp_ms in journal.stored():
            shard.replay(record, offset, timestamp_ms)
        loaded = self.shards[index] = Loaded(index, shard, journal, leader_epoch)
        self._finish(loaded, self._run(loaded, now_ms, shard.on_loaded))

    def on_committed(self, index: int, below: int) -> None:
        """The high watermark of a shard's partition has moved."""
        loaded = self.shards.get(index)
        if loaded is not None:
            loaded.shard.on_committed(below)

    def unload(self, index: int) -> None:
        self.shards.pop(index, None)

    def shard(self, index: int) -> S:
        return self._loaded(index).shard

    def execute(self, index: int, now_ms: int, operation: Callable[[S, Turn], None]) -> None:
        """Run one operation. An ApiError it raises has changed nothing."""
        loaded = self._loaded(index)
        turn = self._run(loaded, now_ms, lambda turn: operation(loaded.shard, turn))
        self._finish(loaded, turn)

    def on_tick(self, now_ms: int) -> None:
        for loaded in list(self.shards.values()):
            while (key := loaded.timers.pop_due(now_ms)) is not None:
                try:
                    turn = self._run(loaded, now_ms, partial(loaded.shard.on_timer, key=key))
                except ApiError:
                    if self.shards.get(loaded.index) is not loaded:
                        break  # gone, or loaded again with timers of its own
                    loaded.timers.apply({key: now_ms + RETRY_MS})
                else:
                    self._finish(loaded, turn)
        due = (loaded.timers.next_ms() for loaded in self.shards.values())
        self.next_ms = min((ms for ms in due if ms is not None), default=None)

    def _loaded(self, index: int) -> Loaded[S]:
        found = self.shards.get(index)
        if found is None:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        return found

    def _run(self, loaded: Loaded[S], now_ms: int, operation: Callable[[Turn], None]) -> Turn:
        turn = Turn(now_ms)
        operation(turn)
        if turn.is_divisible:
            self._store_in_pieces(loaded, turn)
        elif turn.records:
            offset = self._append(loaded, turn)
            if turn.is_replayed:
                self._replay(loaded, turn.records, offset, now_ms)
        for then in turn.then:
            then()
        return turn

    @staticmethod
    def _replay(loaded: Loaded[S], records: list[StoredRecord], offset: int, now_ms: int) -> None:
        for at, record in enumerate(records, offset):
            loaded.shard.replay(record, at, now_ms)

    def _store_in_pieces(self, loaded: Loaded[S], turn: Turn) -> None:
        assert turn.is_replayed, "what changed in memory already is stored as a whole"
        refused: ApiError | None = None
        left = list(_pieces(turn.records))[::-1]
        while left:
            piece = left.pop()
            try:
                offset = loaded.journal.append(piece, turn.now_ms)
            except ApiError as error:
                if error.code not in TOO_LARGE:
                    raise
                if len(piece) > 1:
                    left += [piece[len(piece) // 2 :], piece[: len(piece) // 2]]
                else:
                    log.warning(
                        "a record of %d bytes is too large for shard %d", _size(piece[0]), loaded.index
                    )
                    refused = error
            else:
                self._replay(loaded, piece, offset, turn.now_ms)
        if refused is not None and turn.answers:
            raise refused

    def _append(self, loaded: Loaded[S], turn: Turn) -> int:
        try:
            return loaded.journal.append(turn.records, turn.now_ms)
        except ApiError as error:
            if error.code == ErrorCode.KAFKA_STORAGE_ERROR:
                self.unload(loaded.index)  # its disk failed, and cannot be read again either
                self.on_reloaded(loaded.index, turn.now_ms)
            elif not turn.is_replayed:
                # What is not replayed has changed in memory already: go back to what is stored.
                self._load(loaded.index, loaded.journal, loaded.leader_epoch, turn.now_ms)
                self.on_reloaded(loaded.index, turn.now_ms)
            raise

    def _finish(self, loaded: Loaded[S], turn: Turn) -> None:
        loaded.timers.apply(turn.timers)
        for due_ms in turn.timers.values():
            if due_ms is not None and (self.next_ms is None or due_ms < self.next_ms):
                self.next_ms = due_ms
        for answer, reply in turn.answers:
            answer.reply, answer.after_offset = reply, loaded.journal.end_offset
            answer.given_ms = turn.now_ms
            self.on_answered(answer, turn.now_ms)


def _pieces(records: list[StoredRecord]) -> Iterator[list[StoredRecord]]:
    piece: list[StoredRecord] = []
    size = 0
    for record in records:
        size += _size(record)
        if piece and size > PIECE_BYTES:
            yield piece
            piece, size = [], _size(record)
        piece.append(record)
    if piece:
        yield piece


def _size(record: StoredRecord) -> int:
    return len(record.key) + len(record.value or b"") + RECORD_OVERHEAD_BYTES
