"""The disk, as the core sees it: a port with one implementation for production and one for simulation.

Rules: paths are plain strings; a write goes to the page cache and is durable only after `sync`; whatever must
survive a crash as a whole goes through `write_atomic` (temporary file, sync, rename, sync of the folder). Any
`OSError` passes through: `log/directories` says which log directory it is of. Small files are read and
written with as few system calls as can be: there are several in each of ten thousand partitions.

A folder may hold anything. Only plain files are opened: a symbolic link is not followed, and nothing waits
for the other end of a FIFO (`UnfitFileError`). A file that is read whole has a greatest size, as a sparse one
can claim any.
"""

import errno
import os
import shutil
import stat
from typing import Final, NoReturn, Protocol, TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview
Bytes: TypeAlias = bytes | bytearray

WHOLE_BYTES_MAX: Final = 64 << 20
FOLDER: Final = "a folder"
_LINK: Final = "a symbolic link"
_KINDS: Final = {
    stat.S_IFDIR: FOLDER,
    stat.S_IFLNK: _LINK,
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
# Tells at once that bytes are not in memory; not every system, nor every file system, can.
_NOWAIT: Final = getattr(os, "RWF_NOWAIT", 0)
_CANNOT_TELL: Final = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})
_WARM_BYTES: Final = 256 << 10
_PROBED_BYTES: Final = 64 << 10
_PROBE: Final = bytearray(1)
# Neither another file than the one named, nor a wait for whoever might write to it.
_PLAIN: Final = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


class UnfitFileError(OSError):
    """Something other than a plain file of a sensible size has the name of one that is needed."""


def _refuse(path: str, kind: str) -> NoReturn:
    raise UnfitFileError(errno.EINVAL, f"{kind} where a plain file belongs; move it away", path)


def _read_as_asked(fd: int) -> None:
    """The kernel is to bring in what is read, and nothing behind it. Not every system takes such advice."""
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)


def open_plain(path: str, flags: int, mode: int = 0o666) -> tuple[int, int]:
    """The descriptor and the size of a plain file."""
    try:
        fd = os.open(path, flags | _PLAIN, mode)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENXIO, errno.EISDIR, errno.ENODEV}:
            _refuse(path, kind_of(os.lstat(path)) or "something")
        raise
    status = os.fstat(fd)
    kind = kind_of(status)
    if kind is not None:
        os.close(fd)
        _refuse(path, kind)
    return fd, status.st_size


def kind_of(status: os.stat_result) -> str | None:
    """What it is, if it is no plain file."""
    return _KINDS.get(stat.S_IFMT(status.st_mode))


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
    def read_now(self, at: int, count: int) -> Bytes | None:
        """What `read` gives, or None if the disk would have to be waited for. Where nobody can tell, it is
        waited for."""

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
    def kinds(self, directory: str) -> dict[str, str]: ...
    def make_directory(self, directory: str) -> bool: ...
    def read(self, path: str, most: int | None = None) -> bytes: ...
    def warm(self, path: str, at: int, count: int) -> None:
        """Wait until these bytes are in memory."""

    def write_atomic(self, path: str, data: bytes, *, sync: bool = True) -> None: ...
    def rename(self, old: str, new: str, *, sync: bool = True) -> None: ...
    def remove(self, path: str) -> None: ...
    def remove_tree(self, directory: str) -> None: ...
    def syncable(self, path: str) -> Syncable: ...
    def space(self, directory: str) -> tuple[int, int]: ...


class OsFile:
    __slots__ = ("_fd", "_has_missed", "_is_advised", "_nowait", "_size", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self._nowait = _NOWAIT
        self._is_advised = False  # the kernel is to bring in nothing on its own
        self._has_missed = False  # something that was wanted was not in memory
        self._fd, self._size = open_plain(path, os.O_RDWR | os.O_CREAT, 0o644)

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

    def read_now(self, at: int, count: int) -> Bytes | None:
        if not self._is_advised:
            _read_as_asked(self._fd)  # what comes behind is for who calls `warm`
            self._is_advised = True
        try:
            if self._has_missed and count > _PROBED_BYTES:
                # What is missing the kernel begins to read here and now, a millisecond for 4 MB. Who calls
                # `warm` reads from the front, so the last byte tells of all, and costs one page if not.
                os.preadv(self._fd, (_PROBE,), at + count - 1, self._nowait)
            data = bytearray(count)
            done = os.preadv(self._fd, (data,), at, self._nowait)
        except BlockingIOError:
            self._has_missed = True
            return None
        except OSError as error:
            if error.errno not in _CANNOT_TELL or not self._nowait:
                raise
            self._nowait = 0
            return self.read_now(at, count)
        if done == count:
            return data
        if at + done >= self._size or not self._nowait:
            return data[:done]
        self._has_missed = True
        return None

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
        status = os.lstat(path)
        kind = kind_of(status)
        if kind is not None:
            _refuse(path, kind)
        return status.st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def list(self, directory: str) -> list[str]:
        return sorted(os.listdir(directory))

    def kinds(self, directory: str) -> dict[str, str]:
        """The names in a folder that are no plain files, with what they are."""
        with os.scandir(directory) as entries:
            return {
                entry.name: FOLDER
                if entry.is_dir(follow_symlinks=False)
                else kind_of(entry.stat(follow_symlinks=False)) or "something"
                for entry in entries
                if not entry.is_file(follow_symlinks=False)
            }

    def make_directory(self, directory: str) -> bool:
        """True if it was not there before."""
        try:
            os.mkdir(directory)
        except FileNotFoundError:
            os.makedirs(directory)
        except FileExistsError:
            if not stat.S_ISDIR(os.lstat(directory).st_mode):
                raise
            return False
        return True

    def read(self, path: str, most: int | None = None) -> bytes:
        """The whole file, which must not be larger than WHOLE_BYTES_MAX; or its first `most` bytes."""
        fd, size = open_plain(path, os.O_RDONLY)
        try:
            if most is not None:
                size = min(size, most)
            elif size > WHOLE_BYTES_MAX:
                raise UnfitFileError(
                    errno.EFBIG, f"{size} bytes are too many for this file; move it away", path
                )
            data = os.read(fd, size)
            while len(data) < size and (more := os.read(fd, size - len(data))):
                data += more
        finally:
            os.close(fd)
        return data

    def warm(self, path: str, at: int, count: int) -> None:
        fd, size = open_plain(path, os.O_RDONLY)
        try:
            # The kernel may read 8 MB ahead in one go, for which it keeps a processor to itself (5 ms were
            # seen), and nobody has touched what it brings in.
            _read_as_asked(fd)
            end = min(at + count, size)
            scratch = bytearray(max(min(_WARM_BYTES, end - at), 1))
            while at < end and (done := os.preadv(fd, (scratch,), at)):
                at += done
        finally:
            os.close(fd)

    def write_atomic(self, path: str, data: bytes, *, sync: bool = True) -> None:
        temporary = path + ".tmp"
        fd, _ = open_plain(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
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
