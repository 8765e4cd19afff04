"""The disk for commands that only look: opening a file does not create it, and needs no right to write."""

import fcntl
import os
from typing import cast

from ottla.base.files import File, OsFiles, open_plain
from ottla.log.folders import LOCK


class ReadOnly:
    """A file opened only to be read: as much of the `File` port as looking needs."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size = os.fstat(self._fd).st_size

    def read(self, at: int, count: int) -> bytes:
        return os.pread(self._fd, count, at)

    def close(self) -> None:
        os.close(self._fd)


class ReadOnlyFiles(OsFiles):
    def open(self, path: str) -> File:
        return cast("File", ReadOnly(path))


def user_of(directory: str) -> str | None:
    """The process that has locked a data directory, as far as it says who it is; None if nobody has.

    Ottla locks a file with flock, Java with a record lock; on Linux the two do not see each other.
    """
    try:
        fd, _ = open_plain(os.path.join(directory, LOCK), os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return os.pread(fd, 32, 0).decode(errors="replace").strip() or "unknown"
    finally:
        os.close(fd)
    return None
