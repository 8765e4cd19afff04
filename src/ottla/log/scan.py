"""Walking over the batches of a log file, one after the other, in large reads.

Both walks stop with `TornError` at the first byte that does not begin a whole batch of format 2: the end of a
write that a crash cut short, zeros, or damage. Neither looks into records. The caller knows whether
`TornError` means a tail to cut off (recovery) or an error to report (anything else); `find_batch` finds where
to go on behind damage.
"""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.files import Bytes
from ottla.records.batch import HEADER_SIZE, MAGIC, MAGIC_AT, BatchHeader, crc_ok, read_header

CHUNK_BYTES = 1 << 20
LOOKUP_BYTES = 8 << 10
_LOOK_BEHIND_BYTES = 4 << 20  # for a sound batch behind damage, for one reader, who will be back


class Damage(NamedTuple):
    """Bytes that are no batch, with batches behind them."""

    position: int
    size: int
    reason: str


class Recovered(NamedTuple):
    """What a scan of a segment found. `reason` says why bytes were cut off, if any were; `damage` was left
    where it is; `has_markers` if there may be ends of transactions."""

    next_offset: int
    cut_bytes: int
    reason: str
    epochs: tuple[tuple[int, int], ...]
    damage: tuple[Damage, ...] = ()
    has_markers: bool = False


class Readable(Protocol):
    """A file that somebody walks over."""

    @property
    def path(self) -> str: ...
    def read(self, at: int, count: int) -> Bytes: ...


class TornError(Exception):
    """No whole batch begins at `position`."""

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(f"{path}: no valid batch at {position}: {reason}")
        self.position = position
        self.reason = reason


def headers(
    file: Readable, start: int, end: int, chunk: int = CHUNK_BYTES
) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of every batch between two positions; most bytes of large batches are not read."""
    at, base = start, start
    data: Bytes = b""
    while at < end:
        if at + HEADER_SIZE > base + len(data):
            base, data = at, file.read(at, min(chunk, end - at))
        header = _whole_header(file, data, at - base, at, end)
        yield at, header
        at += header.size


def batches(
    file: Readable, start: int, end: int, chunk: int = CHUNK_BYTES
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """(position, header, bytes) of every batch between two positions."""
    at, base = start, start
    data: Bytes = b""
    while at < end:
        if at + HEADER_SIZE > base + len(data):
            base, data = at, file.read(at, min(chunk, end - at))
        header = _whole_header(file, data, at - base, at, end)
        size = header.size
        if at + size > base + len(data):
            base, data = at, file.read(at, min(max(chunk, size), end - at))
            if len(data) < size:
                raise TornError(file.path, at, f"{len(data)} bytes of {size} could be read")
        yield at, header, memoryview(data)[at - base : at - base + size]
        at += size


def _whole_header(file: Readable, data: Bytes, where: int, position: int, end: int) -> BatchHeader:
    if len(data) - where < HEADER_SIZE:
        raise TornError(file.path, position, f"{len(data) - where} bytes are too few for a batch")
    header = read_header(data, where)
    size = header.size
    if header.magic != MAGIC or size < HEADER_SIZE or header.last_offset_delta < 0:
        raise TornError(file.path, position, "this is not the header of a batch")
    if position + size > end:
        raise TornError(file.path, position, f"a batch of {size} bytes ends after {end - position}")
    return header


def find_offset(file: Readable, start: int, end: int, offset: int, base_offset: int | None) -> int:
    """The position of the first batch from `start` on that ends at or after `offset`; `end` if none does. If
    the first offset of the file is given, damage costs what it destroyed, not what comes after it."""
    try:
        for position, header in headers(file, start, end, LOOKUP_BYTES):
            if position == start and start and header.base_offset > offset:
                raise TornError(file.path, start, f"the index says that {offset} is here or later")
            if header.last_offset >= offset:
                return position
    except TornError as torn:
        if base_offset is None:
            raise
        look_end = min(end, torn.position + _LOOK_BEHIND_BYTES)
        sound = find_batch(file, torn.position + 1, look_end, range(base_offset, offset + 1))
        if sound is None:
            raise
        return find_offset(file, sound, end, offset, base_offset)
    return end


def find_batch(file: Readable, start: int, end: int, offsets: range) -> int | None:
    """The first position from `start` on where a batch with the right checksum begins at one of `offsets`."""
    at = start
    while end - at >= HEADER_SIZE:
        data = file.read(at, min(CHUNK_BYTES + HEADER_SIZE, end - at))
        stop = len(data) - HEADER_SIZE + MAGIC_AT + 1
        where = data.find(MAGIC, MAGIC_AT, stop)
        while where >= 0:
            header = read_header(data, where - MAGIC_AT)
            position = at + where - MAGIC_AT
            is_likely = header.base_offset in offsets and HEADER_SIZE <= header.size <= end - position
            if is_likely and crc_ok(file.read(position, header.size), header):
                return position
            where = data.find(MAGIC, where + 1, stop)
        at += max(stop - MAGIC_AT, 1)
    return None


def corrupt(torn: TornError) -> ApiError:
    """What a reader hears of damage in the middle of a log."""
    return ApiError(ErrorCode.CORRUPT_MESSAGE, str(torn))
