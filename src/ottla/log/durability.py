"""When a log must be synced, and what is known to be on disk.

    recovery_point   everything below it is durable; after a crash, recovery begins here
    safe_end         what may be acknowledged: the log's end, until flush.messages is reached; then nothing
                     from the batch that reached it on, until it is synced

A sync is handed out (`next`), run by a worker thread, and given back (`on_synced`); one at a time per log. It
covers what was appended before it was handed out, and what came meanwhile waits for the next: a group commit.
A file that a sync in flight uses is not closed before that sync is back.

`on_due(due_ms)` tells the owner when to ask again; 0 is at once. It is called only when that time has come
nearer.
"""

from collections.abc import Callable
from typing import NamedTuple

from ottla.base.config import LONG_MAX
from ottla.base.files import File, Syncable
from ottla.log.config import LogConfig


class Sync(NamedTuple):
    """Work for a worker: `sync()` on each of `files`, in order. Then all below `end_offset` is durable."""

    files: tuple[Syncable, ...]
    end_offset: int


class Durability:
    __slots__ = (
        "_armed_ms", "_closing", "_flush_due_ms", "_flush_messages", "_flush_ms", "_in_flight", "_limit",
        "_on_due", "_pending", "_unsafe_from", "_urgent", "flush_at", "recovery_point",
    )  # fmt: skip

    def __init__(self, recovery_point: int, config: LogConfig, on_due: Callable[[int], None]) -> None:
        self.recovery_point = recovery_point
        self.flush_at = LONG_MAX
        self._flush_messages = config.flush_messages
        self._flush_ms = config.flush_ms
        self._on_due = on_due
        self._armed_ms = LONG_MAX
        self._flush_due_ms = LONG_MAX
        self._unsafe_from: int | None = None
        self._pending: dict[str, Syncable] = {}
        self._urgent = False
        self._in_flight: Sync | None = None
        self._limit = LONG_MAX
        self._closing: list[File] = []

    def configure(self, config: LogConfig, log_end: int, now_ms: int) -> None:
        """Take up a log, or a new config; the log may hold records that nobody synced."""
        self._flush_messages = config.flush_messages
        self._flush_ms = config.flush_ms
        self._flush_due_ms = LONG_MAX
        self._set_flush_at()
        if log_end >= self.flush_at:
            self.on_append(self.recovery_point, log_end, now_ms)

    def safe_end(self, log_end: int) -> int:
        return log_end if self._unsafe_from is None else self._unsafe_from

    def on_append(self, base_offset: int, log_end: int, now_ms: int) -> None:
        """A batch took the log's end to `flush_at` or beyond."""
        if log_end - self.recovery_point >= self._flush_messages:
            self._unsafe_from = base_offset
            self._arm(0)
        else:
            self._flush_due_ms = now_ms + self._flush_ms
            self._arm(self._flush_due_ms)
        self._set_flush_at()

    def add(self, path: str, syncable: Syncable, *, urgent: bool = True) -> None:
        """Something besides the active segment that the next sync must include: a closed file, a folder.

        What is not urgent waits until there is a sync anyway, which is before the recovery point moves.
        """
        self._pending.pop(path, None)
        self._pending[path] = syncable
        if urgent:
            self._urgent = True
            self._arm(0)

    def next(self, now_ms: int, log_end: int, closed_end: int, active: Callable[[], Syncable]) -> Sync | None:
        """The sync that is due, if any. It leaves out the active segment if nothing asks for that."""
        if self._in_flight is not None:
            return None
        whole = log_end > self.recovery_point and (
            self._unsafe_from is not None or self._flush_due_ms <= now_ms
        )
        if not whole and not self._urgent:
            # Nothing is due after all (what was has been synced otherwise): ask again only when something is.
            self._armed_ms = LONG_MAX
            self._arm(self._flush_due_ms)
            return None
        files = tuple(self._pending.values())
        self._pending, self._urgent = {}, False
        self._armed_ms = LONG_MAX
        self._limit = log_end if whole else closed_end
        if whole:
            files = (active(), *files)
            self._flush_due_ms = LONG_MAX
            self._set_flush_at()
        self._in_flight = Sync(files, self._limit)
        return self._in_flight

    def on_synced(self, sync: Sync, log_end: int, now_ms: int) -> None:
        """A sync came back. Whatever was appended since it was handed out needs the next one."""
        assert sync is self._in_flight, "a sync came back that is not in flight"
        self._in_flight = None
        self.recovery_point = max(self.recovery_point, min(sync.end_offset, self._limit))
        self._close_files()
        left = log_end - self.recovery_point
        if self._unsafe_from is not None:
            self._unsafe_from = self.recovery_point if left >= self._flush_messages else None
        if left and self._flush_ms < LONG_MAX:
            self._flush_due_ms = min(self._flush_due_ms, now_ms + self._flush_ms)
        self._set_flush_at()
        self._armed_ms = LONG_MAX
        self._arm(0 if self._unsafe_from is not None or self._urgent else self._flush_due_ms)

    def on_sync_failed(self) -> None:
        """What the sync should have made durable may be gone: no other is handed out."""
        self._in_flight = None
        self.abandon()

    def flush(self, log_end: int, active: Callable[[], Syncable]) -> None:
        """Sync everything now, in the caller's thread, also what a worker may be syncing already."""
        for syncable in (*(self._in_flight.files if self._in_flight else ()), *self._pending.values()):
            syncable.sync()
        if log_end > self.recovery_point:
            active().sync()
        self.recovery_point = log_end
        self._unsafe_from = None
        self._flush_due_ms = LONG_MAX
        self._pending, self._urgent = {}, False
        self._set_flush_at()
        self._close_files()

    def abandon(self) -> None:
        """Nothing needs to become durable any more."""
        self._pending, self._urgent = {}, False
        self._close_files()

    def on_truncated(self, offset: int) -> bool:
        """Records from `offset` on are gone; a sync in flight proves nothing about what takes their place.

        True if the recovery point went back, which its checkpoint must then say before anything is written.
        """
        lowered = offset < self.recovery_point
        self._limit = min(self._limit, offset)
        self.recovery_point = min(self.recovery_point, offset)
        if self._unsafe_from is not None and self._unsafe_from >= offset:
            self._unsafe_from = None
        self._set_flush_at()
        return lowered

    def close(self, file: File | None) -> None:
        """Close a file, now or when the sync that uses it, or will, is back."""
        if file is not None:
            self._closing.append(file)
            self._close_files()

    def _close_files(self) -> None:
        if self._in_flight is not None:
            return
        waiting = [file for file in self._closing if file in self._pending.values()]
        for file in self._closing:
            if file not in waiting:
                file.close()
        self._closing = waiting

    def _set_flush_at(self) -> None:
        """The log's end at which `on_append` has something to do; the hot path compares with nothing else."""
        if self._unsafe_from is not None:
            self.flush_at = LONG_MAX
        elif self._flush_ms < LONG_MAX and self._flush_due_ms == LONG_MAX:
            self.flush_at = self.recovery_point + 1
        else:
            self.flush_at = self.recovery_point + self._flush_messages

    def _arm(self, due_ms: int) -> None:
        if due_ms < self._armed_ms:
            self._armed_ms = due_ms
            self._on_due(due_ms)
