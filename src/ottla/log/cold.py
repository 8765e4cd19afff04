"""Reads that would wait for the disk: who must not wait is told what is missing, and comes back.

Who reads for a request passes what was brought in for it so far (`Warmth`). What is not in memory is raised
(`ColdError`), and asked of a worker (`WarmUp`), which reads the files and throws away what it has read: all
that counts is that it is in the page cache then. The request is answered anew from the beginning. So a
segment may be deleted, cut, compacted or moved while the worker is at it, and the worker knows nothing of the
log; what it reads is for nobody but the kernel.

Whether bytes are in memory the disk says at once (`File.read_now`). Whether a file can be opened without it,
nobody says: a segment that is not open is missing, once. What is gone from memory again each time the request
comes back is read in the end, however long that takes (`ROUNDS_MAX`).

Who reads one piece after the other has the next ones brought in before it asks (`sequential_readers`).
"""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from ottla.base.files import Bytes, File, Files

ROUNDS_MAX = 4  # that a file is brought in for one request
PIECE_BYTES_MIN = 256 << 10  # what comes after a few bytes is wanted next
WHOLE = 1 << 31


class Piece(NamedTuple):
    """Bytes of a file that are to be in memory."""

    files: Files
    path: str
    at: int
    size: int


class ColdError(Exception):
    """These pieces are not in memory; `ahead` will be wanted next."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        super().__init__()
        self.pieces = pieces
        self.ahead: ReadAhead | None = None

    @property
    def size(self) -> int:
        """About as many bytes as the read would have given."""
        size = self.pieces[-1].size
        return size if size < WHOLE else 0  # an index is in no answer


class Warmth:
    """What was brought in for one request."""

    __slots__ = ("_rounds",)

    def __init__(self) -> None:
        self._rounds = Counter[str]()

    def with_more(self, pieces: Sequence[Piece]) -> "Warmth":
        more = Warmth()
        more._rounds = self._rounds + Counter({piece.path for piece in pieces})
        return more

    def has(self, path: str) -> bool:
        return path in self._rounds

    def read_missing(self, file: File, files: Files, at: int, count: int) -> Bytes:
        """Bytes that the file does not have in memory; ColdError if they were not asked for too often."""
        if self._rounds[file.path] >= ROUNDS_MAX:
            return file.read(at, count)
        raise ColdError([Piece(files, file.path, at, count)])


NOTHING_YET = Warmth()


class WarmFile:
    """A file as `Warmth` reads it, for who walks over one."""

    __slots__ = ("_file", "_files", "_warmth", "path")

    def __init__(self, file: File, files: Files, warmth: Warmth) -> None:
        self._file, self._files, self._warmth = file, files, warmth
        self.path = file.path

    def read(self, at: int, count: int) -> Bytes:
        data = self._file.read_now(at, count)
        return self._warmth.read_missing(self._file, self._files, at, count) if data is None else data


class WarmUp:
    """The work of a worker: it touches nothing but the disk."""

    held_bytes = 0
    waits_for_disk = True

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.pieces = pieces

    def run(self, pause: Callable[[], None]) -> None:  # noqa: ARG002 - it waits, and need not give way
        """What cannot be read is met again by who comes back for it."""
        for files, path, at, size in self.pieces:
            with suppress(OSError):
                files.warm(path, at, max(size, PIECE_BYTES_MIN))


class Warming(WarmUp):
    """The same as a chore (`log/chores`), for who looks now and then whether it is done, or is told."""

    is_done = False

    def __init__(self, pieces: Sequence[Piece]) -> None:
        super().__init__(pieces)
        self.on_done: Callable[[], None] = lambda: None

    def run(self, pause: Callable[[], None] = lambda: None) -> None:
        super().run(pause)

    def done(self, _error: OSError | None) -> None:
        self.is_done = True
        self.on_done()


class ReadAhead(Warming):
    """Of which nobody knows yet whether it will be needed: it may be left out when there is much to do."""
