"""Files and folders that are not used any more, and are removed file.delete.delay.ms later.

Until then whoever has one open can go on reading, and an operator who made a mistake can find it.
"""

import os.path
from heapq import heapify, heappop, heappush

from ottla.log.directories import Directories, LogDirectoryError
from ottla.log.folders import deleted_folder, unique
from ottla.log.log import Log


class Trash:
    __slots__ = ("_directories", "_due", "_sequence")

    def __init__(self, directories: Directories) -> None:
        self._directories = directories
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
        while self._due and self._due[0][0] <= now_ms:
            _, _, path, directory = heappop(self._due)
            self._remove(path, directory)

    def forget(self, directory: str) -> None:
        """The directory is offline: what is in it stays."""
        self._due = [entry for entry in self._due if entry[3] != directory]
        heapify(self._due)

    def _remove(self, path: str, directory: str) -> None:
        disk = self._directories.disks[directory]
        if directory in self._directories.failing or not disk.exists(path):
            return  # a segment of a partition that was deleted meanwhile went with its folder
        try:
            if path.endswith(("-delete", "-future")):
                disk.remove_tree(path)
            else:
                disk.remove(path)
        except LogDirectoryError as error:
            self._directories.report(error)
