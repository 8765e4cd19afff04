"""The disk, as the core sees it: a port with one implementation for production and one for simulation.

Rules: paths are plain strings; a write goes to the page cache and is durable only after `sync`; whatever must
survive a crash as a whole goes through `write_atomic` (temporary file, sync, rename, sync of the folder). Any
`OSError` passes through: `log/directories` says which log directory it is of. Small files are read and
written with as few system calls as can be: there are several in each of ten thousand partitions.
"""

import errno
import os
import shutil
from typing import Protocol, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview


def is_shortage(error: BaseException | None) -> bool:
    """No file descriptor was free. The disk is well: refuse what asked for one, or try again later."""
    return isinstance(error, OSError) and error.errno in {errno.EMFILE, errno.ENFILE}


class Syncable(Protocol):
    """Something whose content a worker thread can make durable."""

    def sync(self) -> None: ...


class File(Protocol):
    """An open file that grows at its end and is read anywhere."""

    @property
    def path(self) -> str: ...
    @property
    def size(self) -> int: ...
    def append(self, data: Buffer) -> None: ...
    def read(self, at: int, count: int) -> bytes: ...
    def truncate(self, size: int) -> None: ...
    def sync(self) -> None: ...
    def rename(self, path: str) -> None: ...
    def close(self) -> None: ...


class Files(Protocol):
    def open(self, path: str) -> File: ...
    def exists(self, path: str) -> bool: ...
    def size(self, path: str) -> int: ...
    def modified_ms(self, path: str) -> int: ...
    def list(self, directory: str) -> list[str]: ...
    def make_directory(self, directory: str) -> bool: ...
    def read(self, path: str) -> bytes: ...
    def write_atomic(self, path: str, data: bytes, *, sync: bool = True) -> None: ...
    def rename(self, old: str, new: str, *, sync: bool = True) -> None: ...
    def remove(self, path: str) -> None: ...
    def remove_tree(self, directory: str) -> None: ...
    def syncable(self, path: str) -> Syncable: ...
    def space(self, directory: str) -> tuple[int, int]: ...


class OsFile:
    __slots__ = ("_fd", "_size", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._size = os.fstat(self._fd).st_size

    @property
    def size(self) -> int:
        return self._size

    def append(self, data: Buffer) -> None:
        """Write all of `data` at the end, or cut the file back to where it was and raise."""
        view = memoryview(data)
        done, end = 0, self._size
        try:
            while done < len(view):
                done += os.pwrite(self._fd, view[done:] if done else view, end + done)
        except OSError:
            os.ftruncate(self._fd, end)
            raise
        self._size = end + done

    def read(self, at: int, count: int) -> bytes:
        return os.pread(self._fd, count, at)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)
        self._size = size

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def rename(self, path: str) -> None:
        os.rename(self.path, path)
        self.path = path

    def close(self) -> None:
        os.close(self._fd)
        self._fd = -1


class OsPath:
    """A closed file or a folder, to be made durable later; one that is gone by then needs no sync."""

    __slots__ = ("path",)

    def __init__(self, path: str) -> None:
        self.path = path

    def sync(self) -> None:
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


class OsFiles:
    def open(self, path: str) -> File:
        return OsFile(path)

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def size(self, path: str) -> int:
        return os.path.getsize(path)

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def list(self, directory: str) -> list[str]:
        return sorted(os.listdir(directory))

    def make_directory(self, directory: str) -> bool:
        """True if it was not there before."""
        try:
            os.mkdir(directory)
        except FileNotFoundError:
            os.makedirs(directory)
        except FileExistsError:
            if not os.path.isdir(directory):
                raise
            return False
        return True

    def read(self, path: str) -> bytes:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(fd).st_size
            data = os.read(fd, size)
            while len(data) < size and (more := os.read(fd, size - len(data))):
                data += more
        finally:
            os.close(fd)
        return data

    def write_atomic(self, path: str, data: bytes, *, sync: bool = True) -> None:
        temporary = path + ".tmp"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
        try:
            done = os.write(fd, data)
            while done < len(data):
                done += os.write(fd, memoryview(data)[done:])
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temporary, path)
        if sync:
            OsPath(os.path.dirname(path) or ".").sync()

    def rename(self, old: str, new: str, *, sync: bool = True) -> None:
        os.replace(old, new)
        if sync:
            OsPath(os.path.dirname(new) or ".").sync()

    def remove(self, path: str) -> None:
        os.unlink(path)

    def remove_tree(self, directory: str) -> None:
        shutil.rmtree(directory)

    def syncable(self, path: str) -> Syncable:
        return OsPath(path)

    def space(self, directory: str) -> tuple[int, int]:
        """The volume's size in bytes, and how much of it is free for us."""
        volume = os.statvfs(directory)
        return volume.f_blocks * volume.f_frsize, volume.f_bavail * volume.f_frsize
