"""Log directories that fail: which one an error of the disk belongs to.

Every log and checkpoint of a directory goes through its `DirectoryFiles`. Whatever the disk refuses comes out
as a `LogDirectoryError`, which names the directory, so that whoever hears of it, however far above, knows
what to take offline. Two errors pass as they are: a lack of file descriptors, which is no fault of the disk,
and a file to be read whole that is not there, which its reader expects (an index that was lost).

`Directories` are those of a broker. A file whose sync failed is never synced again because its directory is
taken offline and its logs are abandoned, not because it would refuse.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from ottla.base.files import Buffer, Bytes, File, Files, Syncable, UnfitFileError, is_shortage

T = TypeVar("T")


class LogDirectoryError(OSError):
    """The disk under a log directory refused something: nothing in it can be trusted any more."""

    def __init__(self, directory: str, error: OSError, path: str | None = None) -> None:
        super().__init__(error.errno, error.strerror or str(error), path or error.filename or directory)
        self.directory = directory
        self.is_unfit = isinstance(error, UnfitFileError)  # the disk is well, and holds something odd


class DirectoryFile:
    """An open file of a log directory."""

    __slots__ = ("_directory", "_file")

    def __init__(self, directory: str, file: File) -> None:
        self._directory = directory
        self._file = file

    @property
    def path(self) -> str:
        return self._file.path

    @property
    def size(self) -> int:
        return self._file.size

    def append(self, data: Buffer) -> None:
        try:
            self._file.append(data)
        except OSError as error:
            raise _of(self._directory, error, self.path) from None

    def read(self, at: int, count: int) -> bytes:
        try:
            return self._file.read(at, count)
        except OSError as error:
            raise _of(self._directory, error, self.path) from None

    def read_now(self, at: int, count: int) -> Bytes | None:
        try:
            return self._file.read_now(at, count)
        except OSError as error:
            raise _of(self._directory, error, self.path) from None

    def truncate(self, size: int) -> None:
        try:
            self._file.truncate(size)
        except OSError as error:
            raise _of(self._directory, error, self.path) from None

    def sync(self) -> None:
        try:
            self._file.sync()
        except OSError as error:
            raise _of(self._directory, error, self.path) from None

    def rename(self, path: str) -> None:
        try:
            self._file.rename(path)
        except OSError as error:
            raise _of(self._directory, error, self.path) from None

    def close(self) -> None:
        """Never fails: whether bytes are on disk is for a sync to say, and a broken disk must let go."""
        with suppress(OSError):
            self._file.close()


class DirectoryPath:
    """A closed file or a folder in a log directory, to be made durable later."""

    __slots__ = ("_directory", "_path", "_syncable")

    def __init__(self, directory: str, path: str, syncable: Syncable) -> None:
        self._directory = directory
        self._path = path
        self._syncable = syncable

    def sync(self) -> None:
        try:
            self._syncable.sync()
        except OSError as error:
            raise _of(self._directory, error, self._path) from None


class DirectoryFiles:
    """The `Files` of one log directory. They are never asked for anything outside of it."""

    __slots__ = ("_files", "directory")

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self.directory = directory

    def open(self, path: str) -> File:
        return DirectoryFile(self.directory, self._try(path, lambda: self._files.open(path)))

    def exists(self, path: str) -> bool:
        return self._try(path, lambda: self._files.exists(path))

    def size(self, path: str) -> int:
        return self._try(path, lambda: self._files.size(path))

    def modified_ms(self, path: str) -> int:
        return self._try(path, lambda: self._files.modified_ms(path))

    def list(self, directory: str) -> list[str]:
        return self._try(directory, lambda: self._files.list(directory))

    def kinds(self, directory: str) -> dict[str, str]:
        return self._try(directory, lambda: self._files.kinds(directory))

    def make_directory(self, directory: str) -> bool:
        return self._try(directory, lambda: self._files.make_directory(directory))

    def read(self, path: str, most: int | None = None) -> bytes:
        try:
            return self._files.read(path, most)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise _of(self.directory, error, path) from None

    def warm(self, path: str, at: int, count: int) -> None:
        self._try(path, lambda: self._files.warm(path, at, count))

    def write_atomic(self, path: str, data: bytes, *, sync: bool = True) -> None:
        self._try(path, lambda: self._files.write_atomic(path, data, sync=sync))

    def rename(self, old: str, new: str, *, sync: bool = True) -> None:
        self._try(old, lambda: self._files.rename(old, new, sync=sync))

    def remove(self, path: str) -> None:
        self._try(path, lambda: self._files.remove(path))

    def remove_tree(self, directory: str) -> None:
        self._try(directory, lambda: self._files.remove_tree(directory))

    def syncable(self, path: str) -> Syncable:
        return DirectoryPath(self.directory, path, self._files.syncable(path))

    def space(self, directory: str) -> tuple[int, int]:
        return self._try(directory, lambda: self._files.space(directory))

    def _try(self, path: str, operation: Callable[[], T]) -> T:
        try:
            return operation()
        except OSError as error:
            raise _of(self.directory, error, path) from None


def failure_of(files: Files, error: OSError) -> OSError:
    """A log is broken by an error, even if that was a lack of descriptors: its directory cannot go on."""
    if isinstance(error, LogDirectoryError) or not isinstance(files, DirectoryFiles):
        return error
    return LogDirectoryError(files.directory, error)


def _of(directory: str, error: OSError, path: str) -> OSError:
    if is_shortage(error) or isinstance(error, LogDirectoryError):
        return error
    return LogDirectoryError(directory, error, path)


def raise_failure(error: LogDirectoryError) -> None:
    raise error


class Directories:
    """The log directories of a broker: `disks` are those that live, `offline` says why the others do not.

    One that is `failing` has been reported, and is not used for anything that can wait until it is offline.
    """

    __slots__ = ("_on_failed", "disks", "failing", "offline", "paths")

    def __init__(
        self,
        files: Files,
        paths: Sequence[str],
        on_failed: Callable[[LogDirectoryError], object],
    ) -> None:
        self.paths = tuple(paths)
        self.disks = {path: DirectoryFiles(files, path) for path in paths}
        self.failing: set[str] = set()
        self.offline: dict[str, str] = {}
        self._on_failed = on_failed

    def report(self, error: LogDirectoryError) -> None:
        """Say that a directory fails, once."""
        if error.directory not in self.failing:
            self.failing.add(error.directory)
            self._on_failed(error)

    def sound(self) -> list[str]:
        """Where something new can be made: in those that fail only if there are no others."""
        return [path for path in self.disks if path not in self.failing] or list(self.disks)
