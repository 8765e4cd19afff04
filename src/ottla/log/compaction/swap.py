"""Putting cleaned segments in the place of the old ones, so that a crash leaves either, and never a mixture.

One group of segments after the other, oldest first: a tombstone may only go after what it deletes. A step is
a few renames; before the next one, a worker thread syncs the folder, and the log serves on meanwhile:

    prepare   `.cleaned` becomes `.swap`, the log file last. From the sync on, recovery finishes the swap.
    place     the old files become `.deleted`, `.swap` becomes the real name; readers see the new segment.
    settle    `.txnindex.swap`, which was left to mark that old files may come back in a crash, is renamed.

If the log lost one of the old segments meanwhile, or a new file is not as the cleaner left it, nothing is
placed, and the new files are removed.
"""

import os.path
from collections.abc import Sequence
from enum import Enum

from ottla.log.compaction.task import Group
from ottla.log.index import SWAP
from ottla.log.log import Log
from ottla.log.recovery import CLEANED
from ottla.log.segment import SUFFIXES, Segment, file_name
from ottla.log.snapshots import SNAPSHOT

_MARKER = ".txnindex"
_LOG_LAST = (".index", ".timeindex", _MARKER, ".log")


class Step(Enum):
    PREPARE = 1
    PLACE = 2
    SETTLE = 3


class Swap:
    """All groups of one cleaning. `step` is called again after each sync of the folder that it asks for."""

    __slots__ = ("_groups", "_old", "_step", "is_discarded", "log")

    def __init__(self, log: Log, segments: Sequence[Segment], groups: Sequence[Group]) -> None:
        by_base = {segment.base_offset: segment for segment in segments}
        self.log = log
        self.is_discarded = False
        self._groups = list(groups)
        self._old = [[by_base[base] for base in group.bases] for group in groups]
        self._step = Step.PREPARE

    def step(self) -> bool:
        """Go as far as possible without a sync: True if the folder must be synced now, False at the end."""
        if self._step is Step.SETTLE:
            self._settle()
        if not self._groups:
            return False
        if not self._is_current() or not self._is_whole():
            self.cancel()
            return False
        if self._step is Step.PREPARE:
            self._rename(_LOG_LAST, CLEANED, SWAP)
            self._step = Step.PLACE
        else:
            self._place()
            self._step = Step.SETTLE
        return True

    def cancel(self) -> None:
        """Give up what is not in place yet. A crash would bring a `.swap` file to life: it goes for good."""
        if self._step is Step.SETTLE:
            self._settle()
        files = self.log.files
        had_swap = self._step is Step.PLACE
        for group in self._groups:
            for suffix in reversed(_LOG_LAST):
                for ending in (SWAP, CLEANED):
                    path = self._path(group, suffix) + ending
                    if files.exists(path):
                        files.remove(path)
        if had_swap and files.exists(self.log.directory):
            files.syncable(self.log.directory).sync()
        self.is_discarded = bool(self._groups)
        self._groups, self._step = [], Step.PREPARE

    def _place(self) -> None:
        group, old, log = self._groups[0], self._old[0], self.log
        log.segments.set_aside(old[0], SUFFIXES)
        for segment in old[1:]:
            log.segments.set_aside(segment, (*SUFFIXES, SNAPSHOT))
        self._rename([suffix for suffix in reversed(_LOG_LAST) if suffix != _MARKER], SWAP, "")
        log.segments.replace(old, log.config, group.size)

    def _settle(self) -> None:
        path = self._path(self._groups.pop(0), _MARKER)
        self._old.pop(0)
        self._step = Step.PREPARE
        if not self.log.files.exists(path + SWAP):
            return  # the log was emptied meanwhile
        if self.log.files.size(path + SWAP):
            self.log.files.rename(path + SWAP, path, sync=False)
        else:
            self.log.files.remove(path + SWAP)

    def _rename(self, suffixes: Sequence[str], before: str, after: str) -> None:
        for suffix in suffixes:
            path = self._path(self._groups[0], suffix)
            self.log.files.rename(path + before, path + after, sync=False)

    def _path(self, group: Group, suffix: str) -> str:
        return os.path.join(self.log.directory, file_name(group.bases[0], suffix))

    def _is_current(self) -> bool:
        """Whether the old segments are still where they were, and closed."""
        old, segments = self._old[0], self.log.segments
        if old[0] not in segments:
            return False
        at = segments.index(old[0])
        return segments[at : at + len(old)] == old and self.log.active not in old

    def _is_whole(self) -> bool:
        """Whether the new files are those that were made: a cleaner without a broker uses the same names."""
        if self._step is not Step.PREPARE:
            return True
        group, files = self._groups[0], self.log.files
        paths = [self._path(group, suffix) + CLEANED for suffix in _LOG_LAST]
        return all(map(files.exists, paths)) and files.size(paths[-1]) == group.size
