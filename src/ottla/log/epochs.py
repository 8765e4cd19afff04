"""Which leader epoch began at which offset, and the file `leader-epoch-checkpoint` that remembers it.

Replicas compare these to find where their logs part (KIP-101, KIP-279). Epochs and start offsets both rise. A
leader assigns (epoch, log end) when it becomes one, even if it never writes: else a later question about that
epoch would be answered with an older one's end.

The file is replaced whole, and made durable by the log's next sync, so it can be believed below the recovery
point. Above it a power cut may bring back an older file, and the batches say what is right (`forget_from`).
It may lag behind in one place: an entry that starts at the very end of the log (a leader that has written
nothing) is dropped when a log is opened, and need not be in the file, nor out of it, before a record follows.
So neither to open a log at rest nor to lead it writes.

The invariant: no record is appended while the file says something else than the cache. `settled` is what a
batch's epoch is compared with before it is appended: the latest epoch, or none at all while they differ.
"""

from bisect import bisect_right
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

from ottla.base.files import Files
from ottla.log.checkpoint_format import format_lines, parse_lines

FILE_NAME = "leader-epoch-checkpoint"
NO_EPOCH = -1
NO_OFFSET = -1
UNSETTLED = -2  # unlike the epoch of any batch, or of one that has none


class EpochEntry(NamedTuple):
    epoch: int
    start_offset: int


class LeaderEpochs:
    __slots__ = ("_entries", "_on_written", "_stored", "files", "latest", "path", "settled")

    def __init__(self, files: Files, path: str, on_written: Callable[[], None] | None = None) -> None:
        self.files = files
        self.path = path
        self.latest = self.settled = NO_EPOCH
        self._entries: list[EpochEntry] = []
        self._stored = self._entries  # what the file holds; neither list is ever changed in place
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
        self._stored = entries
        self._set(entries)
        return True

    def watch(self, on_written: Callable[[], None]) -> None:
        """Have `on_written` called whenever the file changed, so that a sync can include it."""
        self._on_written = on_written

    def begin(self, epoch: int, start_offset: int) -> None:
        """Lead in `epoch`, from the log's end on. The file hears of it with the first record."""
        if not self._is_known(epoch, start_offset):
            self._put(epoch, start_offset)

    def assign(self, epoch: int, start_offset: int) -> None:
        """A batch of `epoch` comes next, at `start_offset`: see to it that the file says so. Entries that
        contradict it, later or not older, are dropped. A batch of epoch -1 begins none."""
        if epoch >= 0 and not self._is_known(epoch, start_offset):
            self._put(epoch, start_offset)
        if self.settled == UNSETTLED:
            self.write()

    def note(self, epoch: int, start_offset: int) -> None:
        """What a replayed batch says of its epoch: only a newer one is news. The file is not written."""
        if epoch > self.latest:
            self._put(epoch, start_offset)

    def _is_known(self, epoch: int, start_offset: int) -> bool:
        return bool(self._entries) and epoch == self.latest and start_offset >= self._entries[-1].start_offset

    def _put(self, epoch: int, start_offset: int) -> None:
        kept = [entry for entry in self._entries if entry.epoch < epoch and entry.start_offset < start_offset]
        self._set([*kept, EpochEntry(epoch, start_offset)])

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

    def forget_from(self, offset: int) -> None:
        """Before recovery `note`s the epochs of all batches from `offset` on. The file is not written."""
        self._set([entry for entry in self._entries if entry.start_offset < offset])

    def trim(self, start: int, end: int) -> None:
        """Forget what a log from `start` to `end` does not hold. What starts at its very end may stay in the
        file: a leader of the same epoch would only write it again."""
        self.forget_from(end)
        if [entry for entry in self._stored if entry.start_offset != end] != self._entries:
            self.write()
        self.truncate_from_start(start)

    def truncate_from_end(self, offset: int) -> None:
        """Forget epochs that begin at or after `offset`."""
        self._replace([entry for entry in self._entries if entry.start_offset < offset])

    def truncate_from_start(self, offset: int) -> None:
        """Forget epochs that ended before `offset`; the one that covers it now begins there."""
        at = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        if at and (at > 1 or self._entries[0].start_offset < offset):
            self._replace([EpochEntry(self._entries[at - 1].epoch, offset), *self._entries[at:]])

    def clear(self) -> None:
        self._replace([])

    def write(self) -> None:
        data = format_lines([f"{entry.epoch} {entry.start_offset}" for entry in self._entries])
        self.files.write_atomic(self.path, data, sync=False)
        self._stored, self.settled = self._entries, self.latest
        if self._on_written is not None:
            self._on_written()

    def _replace(self, entries: list[EpochEntry]) -> None:
        self._set(entries)
        if self.settled == UNSETTLED:
            self.write()

    def _set(self, entries: list[EpochEntry]) -> None:
        self._entries = entries
        self.latest = entries[-1].epoch if entries else NO_EPOCH
        self.settled = self.latest if entries == self._stored else UNSETTLED
