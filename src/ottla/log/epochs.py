"""Which leader epoch began at which offset, and the file `leader-epoch-checkpoint` that remembers it.

Replicas compare these to find where their logs part (KIP-101, KIP-279). Epochs and start offsets both rise. A
leader assigns (epoch, log end) when it becomes one, even if it never writes: else a later question about that
epoch would be answered with an older one's end.

The file is replaced whole whenever the cache changes, and is made durable by the log's next sync; until the
recovery point passes them, entries can also be found again in the batches.
"""

from bisect import bisect_right
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

from ottla.base.files import Files
from ottla.log.checkpoint import format_lines, parse_lines

FILE_NAME = "leader-epoch-checkpoint"
NO_EPOCH = -1
NO_OFFSET = -1


class EpochEntry(NamedTuple):
    epoch: int
    start_offset: int


class LeaderEpochs:
    __slots__ = ("_entries", "_on_written", "files", "latest", "path")

    def __init__(self, files: Files, path: str, on_written: Callable[[], None] | None = None) -> None:
        self.files = files
        self.path = path
        self.latest = NO_EPOCH
        self._entries: list[EpochEntry] = []
        self._on_written = on_written

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        return tuple(self._entries)

    @property
    def latest_start(self) -> int:
        """Where the latest epoch began; -1 if there is none."""
        return self._entries[-1].start_offset if self._entries else NO_OFFSET

    def load(self) -> bool:
        """Read the file; False if it is missing, empty or makes no sense, and the batches must be asked."""
        if not self.files.exists(self.path) or not (data := self.files.read(self.path)):
            return False
        try:
            entries = [EpochEntry(*map(int, line.split(" "))) for line in parse_lines(data.decode())]
        except (TypeError, ValueError):
            return False
        for before, after in pairwise(entries):
            if before.epoch >= after.epoch or before.start_offset > after.start_offset:
                return False
        self._entries = entries
        self._set_latest()
        return True

    def watch(self, on_written: Callable[[], None]) -> None:
        """Have `on_written` called whenever the file changed, so that a sync can include it."""
        self._on_written = on_written

    def assign(self, epoch: int, start_offset: int) -> None:
        """Begin `epoch` at `start_offset`. Entries that contradict it, later or not older, are dropped."""
        if self._entries and epoch == self.latest and start_offset >= self._entries[-1].start_offset:
            return
        self._put(epoch, start_offset)
        self.write()

    def note(self, epoch: int, start_offset: int) -> bool:
        """What a replayed batch says of its epoch: only a newer one is news. The file is not written."""
        if epoch <= self.latest:
            return False
        self._put(epoch, start_offset)
        return True

    def _put(self, epoch: int, start_offset: int) -> None:
        entries = self._entries
        while entries and (entries[-1].epoch >= epoch or entries[-1].start_offset >= start_offset):
            entries.pop()
        entries.append(EpochEntry(epoch, start_offset))
        self.latest = epoch

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(the largest known epoch that is not above `epoch`, where it ends); (-1, -1) if there is none."""
        if epoch == NO_EPOCH or not self._entries:
            return NO_EPOCH, NO_OFFSET
        if epoch == self.latest:
            return epoch, log_end_offset
        if epoch > self.latest:
            return NO_EPOCH, NO_OFFSET
        at = bisect_right(self._entries, epoch, key=lambda entry: entry.epoch)
        end_offset = self._entries[at].start_offset
        return (epoch if at == 0 else self._entries[at - 1].epoch), end_offset

    def epoch_for(self, offset: int) -> int:
        """The epoch of the record at `offset`, or -1."""
        at = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        return self._entries[at - 1].epoch if at else NO_EPOCH

    def truncate_from_end(self, offset: int) -> None:
        """Forget epochs that begin at or after `offset`."""
        kept = [entry for entry in self._entries if entry.start_offset < offset]
        self._replace(kept)

    def truncate_from_start(self, offset: int) -> None:
        """Forget epochs that ended before `offset`; the one that covers it now begins there."""
        at = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        if at:
            self._replace([EpochEntry(self._entries[at - 1].epoch, offset), *self._entries[at:]])

    def clear(self) -> None:
        self._replace([])

    def write(self) -> None:
        data = format_lines([f"{entry.epoch} {entry.start_offset}" for entry in self._entries])
        self.files.write_atomic(self.path, data, sync=False)
        if self._on_written is not None:
            self._on_written()

    def _replace(self, entries: list[EpochEntry]) -> None:
        if entries != self._entries:
            self._entries = entries
            self._set_latest()
            self.write()

    def _set_latest(self) -> None:
        self.latest = self._entries[-1].epoch if self._entries else NO_EPOCH
