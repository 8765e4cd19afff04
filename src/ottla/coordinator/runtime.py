"""Runs operations on shards: append what was decided, replay it, let the answers go when it is committed.

A shard is loaded by replaying its partition's log when this broker becomes its leader, and dropped when it
stops being that. Loading is keyed by (partition, leader epoch), so that doing it twice, or late, changes
nothing. An operation on a shard that is not here is refused: NOT_COORDINATOR.

Loading goes in slices, so that a long log does not keep the broker from everything else: between two calls of
`on_tick` about `slice_work` records are replayed, of all shards together, first come first served. What is
short is there at once. What is not in memory is brought in by a worker (`log/cold`), and meanwhile it is the
turn of others: those that wait for the disk wait together. A shard that is being loaded refuses operations
(COORDINATOR_LOAD_IN_PROGRESS), writes nothing and has no timers. A log that cannot be read for the moment is
loaded from its beginning a little later. Whatever is stored, from whomever it came, ends neither a load nor
the broker: what makes no sense is collected (`damage`), and if it counts, the shard has *failed*. It refuses
operations (COORDINATOR_NOT_AVAILABLE), and is loaded again when this broker is elected again, or when
somebody else has written to its journal.

`next_ms` is when `on_tick` should be called: when a timer may run out, or earlier if that one was cancelled;
while something is being loaded that does not wait for the disk, now.

Rules: if the append fails, nothing was replayed and no answer given, so state and log agree; a shard that
had changed in memory anyway is loaded again, and who waited for it is refused; if its disk failed, it is
gone. What an operation replies depends on what it wrote *and* on everything written before it, so an answer
waits for the log's end even if the operation wrote nothing. A timer whose turn could not be
stored is tried again later: nobody is there to hear of it.

The records of a turn are one batch, all or nothing, and a batch has a largest size. A turn whose records do
not depend on each other says so (`is_divisible`) and is written in pieces, each replayed as it is stored. A
record too large even alone is left out, so that it does not hold up the others for ever; if somebody waits
for the turn, they are told once the others are stored.

A turn with a `writer` is part of that producer's transaction: its records are replayed with the producer's
id, and it is the shard's business that they count only once `replay_end` tells that it was committed. The end
is a marker in the journal like in any other partition (`end_transaction`), and a load comes by it again.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.metrics import Histogram
from ottla.coordinator.damage import Damage, Unreadable
from ottla.coordinator.timers import Timers
from ottla.coordinator.turn import (
    Answer,
    StoredEnd,
    StoredRecord,
    TimerKey,
    Turn,
    Writer,
    pieces,
    size_of,
)
from ottla.log.chores import OnChore, run_at_once
from ottla.log.cold import Warming
from ottla.records.control import Marker

log = logging.getLogger(__name__)

RETRY_MS: Final = 500
TICK_RECORDS = 1_000  # of all timers: what is due beyond them goes on after others had their turn
BUG_RETRY_MS: Final = 600_000
SLICE_WORK: Final = 500  # about 6 ms: a record is replayed in some 12 us, a larger one counts as several
UNIT_BYTES: Final = 512
TOO_LARGE: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})


class Shard(Protocol):
    """The state behind one partition of an internal topic. A `replay` that raises has changed nothing."""

    def replay(self, record: StoredRecord, offset: int, timestamp_ms: int) -> None: ...
    def replay_end(self, end: StoredEnd) -> None: ...
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
    @property
    def batch_bytes_max(self) -> int: ...
    def place(self, offset: int) -> str:
        """The file that holds an offset, for messages."""

    def append(
        self, records: list[StoredRecord], now_ms: int, wall_ms: int, writer: Writer | None = None
    ) -> int:
        """Write the records as one batch, stamped with the time of day; the offset of the first."""

    def append_end(self, marker: Marker, now_ms: int, wall_ms: int) -> int | None:
        """Write the end of a transaction; its offset, or None if it was there already."""

    def stored(self) -> Iterator["Stored"]:
        """Everything that is stored now, as (record, offset, timestamp) or the end of a transaction, read as
        it is asked for; None stands for work that gave neither, and `Warming` for what is to be brought into
        memory before more is asked for. ApiError: nothing can be read from here."""


Stored: TypeAlias = tuple[StoredRecord, int, int] | StoredEnd | Unreadable | Warming | None


@dataclass(slots=True)
class Loaded(Generic[S]):
    index: int
    shard: S
    journal: Journal
    leader_epoch: int
    timers: Timers = field(default_factory=Timers)


@dataclass(slots=True)
class Loading(Generic[S]):
    """A shard that is being loaded. `stored` is what is left to replay, `then` what is to run after that,
    `warming` what it waits for, or has waited for."""

    index: int
    shard: S
    journal: Journal
    leader_epoch: int
    stored: Iterator[Stored]
    end_offset: int
    begun_ms: int = 0
    offset: int = 0  # up to which it was read
    then: list[Callable[[S, Turn], None]] = field(default_factory=list)
    damage: Damage = field(default_factory=Damage)
    warming: Warming | None = None

    @property
    def is_waiting(self) -> bool:
        """For the disk."""
        return self.warming is not None and not self.warming.is_done


@dataclass(frozen=True, slots=True)
class Failed:
    """A shard that cannot be loaded, because of what is unreadable below `end_offset`."""

    journal: Journal
    leader_epoch: int
    end_offset: int
    unreadable: list[Unreadable]

    @property
    def is_outdated(self) -> bool:
        """Whether something was committed behind it. That is not the shard's, which writes nothing."""
        return self.journal.committed_offset >= self.journal.end_offset > self.end_offset


@dataclass(slots=True)
class Runtime(Generic[S]):
    """The shards this broker coordinates. `on_answered` is called with every answer that has been given,
    `on_event` with what turns tell, `on_chore` with what a worker is to bring into memory; `wall_ms` is the
    time of day at a time of the steady clock (design note 002)."""

    new_shard: Callable[[int], S]
    on_answered: Callable[[Answer, int], None]
    on_reloaded: Callable[[int, int], None] = lambda _index, _now_ms: None
    on_failed: Callable[[int, Failed], None] = lambda _index, _failed: None
    on_left_out: Callable[[int, list[Unreadable]], None] = lambda _index, _left_out: None
    on_event: Callable[[int, object, int], None] = lambda _index, _event, _now_ms: None
    on_chore: OnChore = run_at_once
    wall_ms: Callable[[int], int] = lambda now_ms: now_ms
    slice_work: int = SLICE_WORK
    shards: dict[int, Loaded[S]] = field(default_factory=dict)
    loading: dict[int, Loading[S]] = field(default_factory=dict)
    failed: dict[int, Failed] = field(default_factory=dict)
    load_times: Histogram = field(default_factory=Histogram)
    next_ms: int | None = None
    _work_left: int = field(init=False)
    _load_due_ms: int = 0

    def __post_init__(self) -> None:
        self._work_left = self.slice_work

    # Loading

    def load(self, index: int, journal: Journal, leader_epoch: int, now_ms: int) -> None:
        """Begin to take up a shard from what its journal holds."""
        held = self._held(index)
        if held is None or held.leader_epoch < leader_epoch:
            self._load(index, journal, leader_epoch, now_ms)

    def _held(self, index: int) -> Loaded[S] | Loading[S] | Failed | None:
        return self.shards.get(index) or self.loading.get(index) or self.failed.get(index)

    def _load(self, index: int, journal: Journal, leader_epoch: int, now_ms: int) -> None:
        self._begin(index, journal, leader_epoch, now_ms)
        if len(self.loading) == 1:  # if others wait, it is not its turn
            self._go_on(now_ms)
        else:
            self._wake_at(self._load_due_ms)

    def _begin(self, index: int, journal: Journal, leader_epoch: int, now_ms: int) -> None:
        self.unload(index)
        shard = self.new_shard(index)
        shard.on_committed(journal.committed_offset)
        if not self.loading:
            self._load_due_ms = now_ms
        self.loading[index] = Loading(
            index, shard, journal, leader_epoch, journal.stored(), journal.end_offset, now_ms
        )

    def _go_on(self, now_ms: int) -> None:
        """Replay as much as this slice has left."""
        while self._work_left > 0 and now_ms >= self._load_due_ms and (loading := self._next()) is not None:
            try:
                if self._replay_stored(loading):
                    self._end_loading(loading, now_ms)
            except ApiError as error:
                self._fail(loading, [*loading.damage.left(), Unreadable(-1, str(error))], now_ms)
            except OSError:
                self._begin(loading.index, loading.journal, loading.leader_epoch, now_ms)
                self.loading[loading.index].then = loading.then
                self._load_due_ms = now_ms + RETRY_MS
                self._wake_at(self._load_due_ms)
                raise
        self._wake_for_load()

    def _next(self) -> Loading[S] | None:
        """The first load that does not wait for the disk."""
        return next((loading for loading in self.loading.values() if not loading.is_waiting), None)

    def _wake_for_load(self) -> None:
        if self._next() is not None:
            self._wake_at(self._load_due_ms)

    def _replay_stored(self, loading: Loading[S]) -> bool:
        """Is that all?"""
        for stored in loading.stored:
            self._work_left -= 1
            if isinstance(stored, Warming):
                loading.warming, stored.on_done = stored, self._wake_for_load
                self.on_chore(stored)
                return False
            if isinstance(stored, Unreadable):
                loading.damage.on_batch(stored)
            elif isinstance(stored, StoredEnd):
                loading.damage.on_end(stored, partial(_problem, loading.shard.replay_end, stored))
            elif stored is not None:
                record, loading.offset, timestamp_ms = stored
                offset = loading.offset
                self._work_left -= size_of(record) // UNIT_BYTES
                loading.damage.on_record(
                    record, offset, partial(_problem, loading.shard.replay, record, offset, timestamp_ms)
                )
            if self._work_left <= 0:
                return False
        return True

    def _fail(self, loading: Loading[S], unreadable: list[Unreadable], now_ms: int) -> None:
        index = loading.index
        failed = Failed(loading.journal, loading.leader_epoch, loading.end_offset, unreadable)
        self.unload(index)
        if failed.is_outdated:
            self._begin(index, failed.journal, failed.leader_epoch, now_ms)
        else:
            self.failed[index] = failed
            self.on_failed(index, failed)

    def _end_loading(self, loading: Loading[S], now_ms: int) -> None:
        index = loading.index
        if unreadable := loading.damage.left():
            self._fail(loading, unreadable, now_ms)
            return
        if left_out := loading.damage.left_out():
            self.on_left_out(index, left_out)
        del self.loading[index]
        self.load_times.observe((now_ms - loading.begun_ms) * 1_000)
        loaded = self.shards[index] = Loaded(index, loading.shard, loading.journal, loading.leader_epoch)
        try:
            turn = self.turn(loaded, now_ms)
            loading.shard.on_loaded(turn)
            self._store(loaded, turn)
        except Exception as error:  # noqa: BLE001  # as in `_problem`: what is stored may be forged
            self._fail(loading, [Unreadable(-1, repr(error))], now_ms)
            return
        self._finish(loaded, turn)
        for operation in loading.then:
            self._attempt(index, now_ms, operation)

    @property
    def offsets_to_load(self) -> int:
        """Of all journals that are being loaded."""
        return sum(max(loading.end_offset - loading.offset, 0) for loading in self.loading.values())

    def on_committed(self, index: int, below: int, now_ms: int) -> None:
        """The high watermark of a shard's partition has moved."""
        loaded = self.shards.get(index)
        if loaded is not None:
            loaded.shard.on_committed(below)
            return
        held = self._held(index)
        if isinstance(held, Failed):
            if held.is_outdated:
                self._load(index, held.journal, held.leader_epoch, now_ms)
        elif held is not None:
            held.shard.on_committed(below)

    def unload(self, index: int) -> None:
        self.shards.pop(index, None)
        self.loading.pop(index, None)
        self.failed.pop(index, None)

    # Operations

    def shard(self, index: int) -> S:
        return self._loaded(index).shard

    def execute(self, index: int, now_ms: int, operation: Callable[[S, Turn], None]) -> None:
        """Run one operation. An ApiError it raises has changed nothing."""
        loaded = self._loaded(index)
        turn = self.turn(loaded, now_ms)
        operation(loaded.shard, turn)
        self.complete(loaded, turn)

    def turn(self, loaded: Loaded[S], now_ms: int) -> Turn:
        """For one operation. What it decides is nothing until it is completed."""
        return Turn(now_ms, self.wall_ms(now_ms), loaded.journal.batch_bytes_max)

    def complete(self, loaded: Loaded[S], turn: Turn) -> None:
        """Store what a turn decided; then all that follows from it. An ApiError has changed nothing."""
        self._store(loaded, turn)
        self._finish(loaded, turn)

    def end_transaction(self, index: int, marker: Marker, now_ms: int, answer: Answer) -> None:
        """End a producer's transaction. The answer is given as True; one that had ended is told alike."""
        loaded = self._loaded(index)
        turn = Turn(now_ms, self.wall_ms(now_ms))
        try:
            offset = loaded.journal.append_end(marker, now_ms, turn.wall_ms)
        except ApiError as error:
            self._on_refused(loaded, turn, error)
            raise
        if offset is not None:
            loaded.shard.replay_end(StoredEnd(marker.producer_id, marker.committed, offset))
        turn.answer(answer, True)
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
        if self.next_ms is not None and self.next_ms <= now_ms:
            self._run_timers(now_ms)
        self._work_left = self.slice_work
        self._go_on(now_ms)

    def _run_timers(self, now_ms: int) -> None:
        written = 0
        while written < TICK_RECORDS and (loaded := self._due(now_ms)) is not None:
            key = loaded.timers.pop_due(now_ms)
            try:
                turn = self.turn(loaded, now_ms)
                loaded.shard.on_timer(turn, key)
                self._store(loaded, turn)
            except ApiError:
                loaded.timers.apply({key: now_ms + RETRY_MS})  # of no use if it is gone, or loaded again
            except OSError:
                loaded.timers.apply({key: now_ms + RETRY_MS})
                raise  # the disk's, not ours
            except Exception:
                # What is stored may be forged, and whoever leads next would load the same.
                log.exception("a timer of shard %d failed: %s", loaded.index, key)
                loaded.timers.apply({key: now_ms + BUG_RETRY_MS})
            else:
                # One that sets itself again waits for the next tick, or it would hold up everything.
                self._finish(loaded, turn, timers_from_ms=now_ms + 1)
                written += len(turn.records)
        due = (loaded.timers.next_ms() for loaded in self.shards.values())
        self.next_ms = min((ms for ms in due if ms is not None), default=None)

    def _due(self, now_ms: int) -> Loaded[S] | None:
        """The shard whose timer has been due for longest."""
        due_ms, due = now_ms + 1, None
        for loaded in self.shards.values():
            next_ms = loaded.timers.next_ms()
            if next_ms is not None and next_ms < due_ms:
                due_ms, due = next_ms, loaded
        return due

    def _wake_at(self, due_ms: int) -> None:
        if self.next_ms is None or due_ms < self.next_ms:
            self.next_ms = due_ms

    def _loaded(self, index: int) -> Loaded[S]:
        held = self._held(index)
        if isinstance(held, Loading):
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        if isinstance(held, Failed):
            raise ApiError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                "What is stored cannot be read; the broker's log has more.",
            )
        if held is None:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        return held

    def _store(self, loaded: Loaded[S], turn: Turn) -> None:
        if turn.is_divisible:
            self._store_in_pieces(loaded, turn)
        elif turn.records:
            try:
                offset = loaded.journal.append(turn.records, turn.now_ms, turn.wall_ms, turn.writer)
            except ApiError as error:
                self._on_refused(loaded, turn, error)
                raise
            if turn.is_replayed:
                self._replay(loaded, turn, turn.records, offset)
        for then in turn.then:
            then()

    @staticmethod
    def _replay(loaded: Loaded[S], turn: Turn, records: list[StoredRecord], offset: int) -> None:
        if turn.writer is not None:
            records = [record._replace(producer_id=turn.writer.producer_id) for record in records]
        for at, record in enumerate(records, offset):
            loaded.shard.replay(record, at, turn.wall_ms)

    def _store_in_pieces(self, loaded: Loaded[S], turn: Turn) -> None:
        assert turn.is_replayed, "what changed in memory already is stored as a whole"
        assert turn.writer is None, "what a transaction writes is stored as a whole"
        refused: ApiError | None = None
        left = list(pieces(turn.records))[::-1]
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
                        "a record of %d bytes is too large for shard %d", size_of(piece[0]), loaded.index
                    )
                    refused = error
            else:
                self._replay(loaded, turn, piece, offset)
        if refused is not None and turn.answers:
            raise refused

    def _on_refused(self, loaded: Loaded[S], turn: Turn, error: ApiError) -> None:
        """The journal has not taken what a turn decided."""
        if error.code == ErrorCode.KAFKA_STORAGE_ERROR:
            self.unload(loaded.index)  # its disk failed, and cannot be read again either
            self.on_reloaded(loaded.index, turn.now_ms)
        elif not turn.is_replayed:
            # What is not replayed has changed in memory already: go back to what is stored.
            self._load(loaded.index, loaded.journal, loaded.leader_epoch, turn.now_ms)
            self.on_reloaded(loaded.index, turn.now_ms)

    def _finish(self, loaded: Loaded[S], turn: Turn, timers_from_ms: int = 0) -> None:
        if turn.timers:
            timers = {
                key: None if due_ms is None else max(due_ms, timers_from_ms)
                for key, due_ms in turn.timers.items()
            }
            loaded.timers.apply(timers)
            for due_ms in timers.values():
                if due_ms is not None:
                    self._wake_at(due_ms)
        for answer, reply in turn.answers:
            answer.reply, answer.after_offset = reply, loaded.journal.end_offset
            answer.given_ms = turn.now_ms
            self.on_answered(answer, turn.now_ms)
        for event in turn.events:
            self.on_event(loaded.index, event, turn.now_ms)


def _problem(replay: Callable[..., None], *stored: Any) -> str | None:
    """Replay what a disk holds; what is wrong with it, if that cannot be done."""
    try:
        replay(*stored)
    except Exception as error:  # noqa: BLE001  # whoever wrote it: no record stops a start or a failover
        return str(error) if isinstance(error, ValueError) else repr(error)
    return None
