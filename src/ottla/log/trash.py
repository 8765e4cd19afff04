"""Files and folders that are not used any more, and are removed file.delete.delay.ms later.

Until then whoever has one open can go on reading, and an operator who made a mistake can find it. To remove a
gigabyte takes a file system tenths of a second, so that is a chore (`log/chores`).
"""

import errno
import os.path
from heapq import heapify, heappop, heappush

from ottla.log.chores import OnChore
from ottla.log.directories import Directories, DirectoryFiles, LogDirectoryError
from ottla.log.folders import deleted_folder, unique
from ottla.log.log import Log

REMOVED_MAX = 50  # files and folders, by one worker after the other


class Removal:
    """A chore: files and folders of one directory that are not used any more. What is gone already went with
    its folder, or was removed with another of its name."""

    def __init__(self, directories: Directories, disk: DirectoryFiles, paths: list[str]) -> None:
        self._directories, self._disk, self._paths = directories, disk, paths

    def run(self) -> None:
        for path in self._paths:
            try:
                if self._disk.exists(path):
                    self._remove(path)
            except LogDirectoryError as error:
                if error.errno != errno.ENOENT:
                    raise

    def _remove(self, path: str) -> None:
        if path.endswith(("-delete", "-future")):
            self._disk.remove_tree(path)
        else:
            self._disk.remove(path)

    def done(self, error: OSError | None) -> None:
        if isinstance(error, LogDirectoryError) and error.directory in self._directories.disks:
            self._directories.report(error)


class Trash:
    __slots__ = ("_directories", "_due", "_on_chore", "_sequence")

    def __init__(self, directories: Directories, on_chore: OnChore) -> None:
        self._directories = directories
        self._on_chore = on_chore
        self._due: list[tuple[int, int, str, str]] = []  # when, a sequence number, the path, its directory
        self._sequence = 0

    def add(self, path: str, directory: str, due_ms: int) -> None:
        self._sequence += 1
        heappush(self._due, (due_ms, self._sequence, path, directory))

    def add_segments(self, log: Log, now_ms: int) -> None:
        """The files that a log has let go of."""
        directory = os.path.dirname(log.directory)
        for path in log.deleted:
            self.add(path, directory, now_ms + log.config.file_delete_delay_ms)
        log.deleted.clear()

    def add_folder(self, log: Log, directory: str, now_ms: int, *, sync: bool = True) -> None:
        """The folder of a log: its name is free at once."""
        self._sequence += 1
        name = deleted_folder(log.topic_partition, unique(f"{log.directory} {now_ms} {self._sequence}"))
        path = os.path.join(directory, name)
        try:
            log.files.rename(log.directory, path, sync=sync)
        except LogDirectoryError as error:
            self._directories.report(error)
        else:
            self.add(path, directory, now_ms + log.config.file_delete_delay_ms)

    def remove_due(self, now_ms: int) -> None:
        due: dict[str, list[str]] = {}
        while self._due and self._due[0][0] <= now_ms:
            _, _, path, directory = heappop(self._due)
            due.setdefault(directory, []).append(path)
        for directory, paths in due.items():
            if directory not in self._directories.failing:
                disk = self._directories.disks[directory]
                for at in range(0, len(paths), REMOVED_MAX):
                    self._on_chore(Removal(self._directories, disk, paths[at : at + REMOVED_MAX]))

    def forget(self, directory: str) -> None:
        """The directory is offline: what is in it stays."""
        self._due = [entry for entry in self._due if entry[3] != directory]
        heapify(self._due)
