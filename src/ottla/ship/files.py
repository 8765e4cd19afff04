"""One file that is being followed: its lines as they become whole, and what became of it.

A line is whole with its newline. A line longer than LINE_BYTES_MAX goes in parts, each a record of its own;
all but the first say so in their header `continued`. Bytes go as they are, text or not.

The fingerprint at an offset covers the first and the last bytes before it. A file whose fingerprint at the
offset has changed has been cut and written anew, whatever its size; another file with the same one is a copy.
"""

import errno
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from ottla.ship.state import Position

LINE_BYTES_MAX = 900_000  # below a broker's usual limit, with room for headers
CHUNK_BYTES = 4 << 20
PRINT_BYTES = 1024


class Line(NamedTuple):
    offset: int
    next: int
    value: bytes
    is_continued: bool
    is_inside_after: bool


@dataclass(slots=True)
class Followed:
    """An open file and its position.

    `is_gone` once its name belongs to another file (then `is_replaced` too), or to none.
    """

    position: Position
    descriptor: int
    is_gone: bool = False
    is_replaced: bool = False
    partial_bytes: int = 0
    checked: tuple[int, int] = (-1, -1)  # size and time of change when it was last looked at

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def stat(self) -> os.stat_result:
        return os.fstat(self.descriptor)

    def is_same(self) -> bool:
        """Whether what has been read still stands before the position."""
        status, position = self.stat(), self.position
        now = (status.st_size, status.st_mtime_ns)
        if self.checked == now:
            return True
        is_same = status.st_size >= position.offset
        if is_same and position.print:
            is_same = self.fingerprint() == position.print
        if is_same:
            self.checked = now
        return is_same

    def read(self, *, unfinished: bool = False) -> Iterator[Line]:
        """The lines from the position on, up to a chunk of them; the position moves with `passed`."""
        offset, is_inside = self.position.offset, self.position.is_inside
        if offset == 0 and self.position.generation:
            offset = _after_hole(self.descriptor)
        content = os.pread(self.descriptor, CHUNK_BYTES, offset)
        at, is_end = 0, len(content) < CHUNK_BYTES
        while at < len(content):
            line = _cut(content, at, offset, is_inside, is_end=is_end and unfinished)
            if line is None:
                break
            at, offset, is_inside = at + line.next - line.offset, line.next, line.is_inside_after
            yield line
        self.partial_bytes = len(content) - at

    def passed(self, line: Line) -> None:
        self.position.offset, self.position.is_inside = line.next, line.is_inside_after
        self.position.print = ""  # known again when the position is stored

    def fingerprint(self) -> str:
        return fingerprint(self.descriptor, self.position.offset)


def _cut(content: bytes, at: int, offset: int, was_inside: bool, *, is_end: bool) -> Line | None:
    """The next line or part of one in `content`; None if its end has not been seen yet."""
    newline = content.find(b"\n", at, at + LINE_BYTES_MAX + 1)
    if newline >= 0:
        value = content[at:newline].removesuffix(b"\r")
        return Line(offset, offset + newline + 1 - at, value, was_inside, False)
    if len(content) - at > LINE_BYTES_MAX:
        return Line(offset, offset + LINE_BYTES_MAX, content[at : at + LINE_BYTES_MAX], was_inside, True)
    if is_end:
        return Line(offset, offset + len(content) - at, content[at:], was_inside, True)
    return None


def _after_hole(descriptor: int) -> int:
    """A writer that does not notice a cut goes on at its old place; the zeros before it are no line."""
    if os.pread(descriptor, 1, 0) != b"\0":
        return 0
    try:
        at = os.lseek(descriptor, 0, os.SEEK_DATA)
    except OSError as error:
        if error.errno != errno.ENXIO:  # nothing but a hole
            raise
        return os.fstat(descriptor).st_size
    while content := os.pread(descriptor, CHUNK_BYTES, at):
        rest = content.lstrip(b"\0")
        at += len(content) - len(rest)
        if rest:
            break
    return at


def fingerprint(descriptor: int, offset: int) -> str:
    """Of the first and the last kilobyte before an offset; empty if the file is not that long."""
    if offset == 0:
        return ""
    head = os.pread(descriptor, min(PRINT_BYTES, offset), 0)
    first = max(0, offset - PRINT_BYTES)
    tail = os.pread(descriptor, offset - first, first)
    if len(head) < min(PRINT_BYTES, offset) or len(tail) < offset - first:
        return ""
    return hashlib.sha256(head + tail).hexdigest()[:32]


def is_beginning_of(descriptor: int, size: int, other: int) -> bool:
    """Whether this shorter file may be a copy of the other that is still being written."""
    return size > 0 and fingerprint(descriptor, size) == fingerprint(other, size)
