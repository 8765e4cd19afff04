"""Runs operations on shards: append what was decided, replay it, let the answers go when it is committed.

A shard is loaded by replaying its partition's log when this broker becomes its leader, and dropped when it
stops being that. Loading is keyed by (partition, leader epoch), so that doing it twice, or late, changes
nothing. An operation on a shard that is not here is refused: NOT_COORDINATOR.

Loading goes in slices, so that a long log does not keep the broker from everything else: between two calls of
`on_tick` about `slice_work` records are replayed, of all shards together, first come first served. What is
short is there at once. A shard that is being loaded refuses operations (COORDINATOR_LOAD_IN_PROGRESS), writes
nothing and has no timers. A log that cannot be read for the moment is loaded from its beginning a little
later; one that is damaged has no coordinator (`on_damaged`).

`next_ms` is when `on_tick` should be called: when a timer may run out, or earlier if that one was cancelled;
while something is being loaded, now.

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
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Generic, Protocol, TypeVar

from ottla.base.errors import ApiError, ErrorCode
from ottla.coordinator.timers import Timers
from ottla.coordinator.turn import Answer, StoredRecord, TimerKey, Turn

log = logging.getLogger(__name__)

RETRY_MS: Final = 500
SLICE_WORK: Final = 500  # about 6 ms: a record is replayed in some 12 us, a larger one counts as several
UNIT_BYTES: Final = 512
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
    def append(self, records: list[StoredRecord], now_ms: int, wall_ms: int) -> int:
        """Write the records as one batch, stamped with the time of day; the offset of the first."""

    def stored(self) -> Iterator[tuple[StoredRecord, int, int] | None]:
        """Everything that is stored now, as (record, offset, timestamp), read as it is asked for; None stands
        for work that gave no record."""


@dataclass(slots=True)
class Loaded(Generic[S]):
    index: int
    shard: S
    journal: Journal
    leader_epoch: int
    timers: Timers = field(default_factory=Timers)


@dataclass(slots=True)
class Loading(Generic[S]):
    """A shard that is being loaded. `stored` is what is left to replay, `then` what is to run after that."""

    index: int
    shard: S
    journal: Journal
    leader_epoch: int
    stored: Iterator[tuple[StoredRecord, int, int] | None]
    then: list[Callable[[S, Turn], None]] = field(default_factory=list)


@dataclass(slots=True)
class Runtime(Generic[S]):
    """The shards this broker coordinates. `on_answered` is called with every answer that has been given;
    `wall_ms` is the time of day at a time of the steady clock (design note 002)."""

    new_shard: Callable[[int], S]
    on_answered: Callable[[Answer, int], None]
    on_reloaded: Callable[[int, int], None] = lambda _index, _now_ms: None
    on_damaged: Callable[[int, ApiError], None] = lambda _index, _damage: None
    wall_ms: Callable[[int], int] = lambda now_ms: now_ms
    slice_work: int = SLICE_WORK
    shards: dict[int, Loaded[S]] = field(default_factory=dict)
    loading: dict[int, Loading[S]] = field(default_factory=dict)
    next_ms: int | None = None
    _work_left: int = field(init=False)
    _load_due_ms: int = 0

    def __post_init__(self) -> None:
        self._work_left = self.slice_work

    # Loading

    def load(self, index: int, journal: Journal, leader_epoch: int, now_ms: int) -> None:
        """Begin to take up a shard from what its journal holds."""
        known = self.shards.get(index) or self.loading.get(index)
        if known is None or known.leader_epoch < leader_epoch:
            self._load(index, journal, leader_epoch, now_ms)

    def _load(self, index: int, journal: Journal, leader_epoch: int, now_ms: int) -> None:
        self._begin(index, journal, leader_epoch, now_ms)
        if len(self.loading) == 1:  # if others wait, it is not its turn
            self._go_on(now_ms)

    def _begin(self, index: int, journal: Journal, leader_epoch: int, now_ms: int) -> None:
        self.unload(index)
        shard = self.new_shard(index)
        shard.on_committed(journal.committed_offset)
        if not self.loading:
            self._load_due_ms = now_ms
        self.loading[index] = Loading(index, shard, journal, leader_epoch, journal.stored())

    def _go_on(self, now_ms: int) -> None:
        """Replay as much as this slice has left."""
        while self.loading and self._work_left > 0 and now_ms >= self._load_due_ms:
            loading = next(iter(self.loading.values()))
            try:
                if self._replay_stored(loading):
                    self._end_loading(loading, now_ms)
            except ApiError as damage:
                self.unload(loading.index)
                self.on_damaged(loading.index, damage)
            except OSError:
                self._begin(loading.index, loading.journal, loading.leader_epoch, now_ms)
                self.loading[loading.index].then = loading.then
                self._load_due_ms = now_ms + RETRY_MS
                self._wake_at(self._load_due_ms)
                raise
        if self.loading:
            self._wake_at(self._load_due_ms)

    def _replay_stored(self, loading: Loading[S]) -> bool:
        """Is that all?"""
        for stored in loading.stored:
            self._work_left -= 1
            if stored is not None:
                record, offset, timestamp_ms = stored
                self._work_left -= _size(record) // UNIT_BYTES
                loading.shard.replay(record, offset, timestamp_ms)
            if self._work_left <= 0:
                return False
        return True

    def _end_loading(self, loading: Loading[S], now_ms: int) -> None:
        index = loading.index
        del self.loading[index]
        loaded = self.shards[index] = Loaded(index, loading.shard, loading.journal, loading.leader_epoch)
        self._finish(loaded, self._run(loaded, now_ms, loading.shard.on_loaded))
        for operation in loading.then:
            self._attempt(index, now_ms, operation)

    def on_committed(self, index: int, below: int) -> None:
        """The high watermark of a shard's partition has moved."""
        known = self.shards.get(index) or self.loading.get(index)
        if known is not None:
            known.shard.on_committed(below)

    def unload(self, index: int) -> None:
        self.shards.pop(index, None)
        self.loading.pop(index, None)

    # Operations

    def shard(self, index: int) -> S:
        return self._loaded(index).shard

    def execute(self, index: int, now_ms: int, operation: Callable[[S, Turn], None]) -> None:
        """Run one operation. An ApiError it raises has changed nothing."""
        loaded = self._loaded(index)
        turn = self._run(loaded, now_ms, lambda turn: operation(loaded.shard, turn))
        self._finish(loaded, turn)

    def execute_everywhere(self, now_ms: int, operation: Callable[[S, Turn], None]) -> None:
        """On every shard, on one that is being loaded as soon as it is there. Where it is refused, it is left
        out."""
        for loading in self.loading.values():
            loading.then.append(operation)
        for index in list(self.shards):
            self._attempt(index, now_ms, operation)

    def _attempt(self, index: int, now_ms: int, operation: Callable[[S, Turn], None]) -> None:
        with suppress(ApiError):
            self.execute(index, now_ms, operation)

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
        self._work_left = self.slice_work
        self._go_on(now_ms)

    def _wake_at(self, due_ms: int) -> None:
        if self.next_ms is None or due_ms < self.next_ms:
            self.next_ms = due_ms

    def _loaded(self, index: int) -> Loaded[S]:
        loaded = self.shards.get(index)
        if loaded is None:
            is_loading = index in self.loading
            raise ApiError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if is_loading else ErrorCode.NOT_COORDINATOR
            )
        return loaded

    def _run(self, loaded: Loaded[S], now_ms: int, operation: Callable[[Turn], None]) -> Turn:
        turn = Turn(now_ms, self.wall_ms(now_ms))
        operation(turn)
        if turn.is_divisible:
            self._store_in_pieces(loaded, turn)
        elif turn.records:
            offset = self._append(loaded, turn)
            if turn.is_replayed:
                self._replay(loaded, turn.records, offset, turn.wall_ms)
        for then in turn.then:
            then()
        return turn

    @staticmethod
    def _replay(loaded: Loaded[S], records: list[StoredRecord], offset: int, wall_ms: int) -> None:
        for at, record in enumerate(records, offset):
            loaded.shard.replay(record, at, wall_ms)

    def _store_in_pieces(self, loaded: Loaded[S], turn: Turn) -> None:
        assert turn.is_replayed, "what changed in memory already is stored as a whole"
        refused: ApiError | None = None
        left = list(_pieces(turn.records))[::-1]
        while left:
            piece = left.pop()
            try:
                offset = loaded.journal.append(piece, turn.now_ms, turn.wall_ms)
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
                self._replay(loaded, piece, offset, turn.wall_ms)
        if refused is not None and turn.answers:
            raise refused

    def _append(self, loaded: Loaded[S], turn: Turn) -> int:
        try:
            return loaded.journal.append(turn.records, turn.now_ms, turn.wall_ms)
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
            if due_ms is not None:
                self._wake_at(due_ms)
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
