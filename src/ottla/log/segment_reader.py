"""Reading from one segment: by offset, with limits.

A read is one `pread` in the usual case: where it begins is known (see `segment`), and it ends where the
segment or the readable part of it ends. Only a read that its size limit cuts short looks for the last whole
batch, and it begins to look at the index entry before the cut, so it steps over few headers however small the
batches are.
"""

from struct import Struct
from typing import NamedTuple

from ottla.base.errors import ApiError
from ottla.base.files import Buffer, Bytes
from ottla.log.cold import ColdError, Piece, ReadAhead, Warmth
from ottla.log.scan import TornError, corrupt
from ottla.log.segment import Segment
from ottla.records.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, BatchHeader, read_header, size_of

_unpack_extent = Struct(">qi4xb6xi").unpack_from  # base offset, length, magic, last offset delta
READ_BYTES_PER_ROUND = 16 << 20  # some ten milliseconds of reading and sending


class Read(NamedTuple):
    """Whole batches, and the offset after the last of them (the one asked for, if there are none). `ahead`
    brings into memory what will be asked for next."""

    records: Buffer
    next_offset: int
    ahead: ReadAhead | None = None


def read(
    segment: Segment,
    offset: int,
    max_bytes: int,
    end: int,
    upper: int,
    at_least_one: bool,
    warmth: Warmth | None,
) -> Read:
    """Batches of one segment whose records lie below `upper`, from `offset` to `end`."""
    position = segment.locate(offset, warmth)
    whole = end >= upper
    stop = segment.size if whole else segment.locate(end, warmth)
    count = stop - position
    if count <= 0:
        return Read(b"", min(end, upper) if whole else offset)
    if warmth is not None and segment.readers.is_awaited(position, position + min(count, max_bytes)):
        _await(segment, position, min(count, max_bytes), warmth)
    if count <= max_bytes:
        data = segment.read(position, count, warmth)
        # What is left of a batch must not pass for all there is: its reader would wait for the rest for ever.
        if len(data) < count:
            raise corrupt(TornError(segment.path(), position + len(data), f"the file ends before {stop}"))
        if len(data) < HEADER_SIZE or size_of(data) > count:
            raise corrupt(TornError(segment.path(), position, "the batch is not whole"))
        return Read(data, min(end, upper))
    return _cut(segment, offset, position, max_bytes, at_least_one, warmth)


def _cut(
    segment: Segment, offset: int, position: int, max_bytes: int, at_least_one: bool, warmth: Warmth | None
) -> Read:
    count = max(max_bytes, HEADER_SIZE)
    try:
        data = segment.read(position, count, warmth)
    except ColdError as cold:
        segment.readers.on_missing(offset)
        cold.ahead = _ahead(segment, offset, position + count)
        raise
    first = _header(segment, data, position, 0, offset)
    if first.size > max_bytes:
        if not at_least_one:
            return Read(b"", offset)
        return Read(segment.read(position, first.size, warmth), first.next_offset)
    at, next_offset = _last_whole(segment, data, position, max_bytes, first.size, first.next_offset)
    ahead = _ahead(segment, offset, position + count)
    segment.readers.stop(next_offset, position + at, begun_at=offset)
    return Read(memoryview(data)[:at], next_offset, ahead)


def _await(segment: Segment, position: int, count: int, warmth: Warmth) -> None:
    """What a worker is bringing in is missing until then, but for who has waited for it."""
    path = segment.path()
    if not warmth.has(path):
        raise ColdError([Piece(segment.files, path, position, count)])


def _ahead(segment: Segment, offset: int, end: int) -> ReadAhead | None:
    readers = segment.readers
    wanted = readers.ahead_of(offset, end, segment.size)
    if wanted is None:
        return None
    begin, stop = wanted
    ahead = ReadAhead([Piece(segment.files, segment.path(), begin, stop - begin)])
    readers.expect(ahead)
    return ahead


def _last_whole(
    segment: Segment, data: Bytes, position: int, size: int, at: int, next_offset: int
) -> tuple[int, int]:
    """Where the last whole batch in `data` ends, relative to `position`, and the offset after it."""
    boundary = segment.boundary(position + size - HEADER_SIZE) - position
    if boundary > at:
        header = read_header(data, boundary)
        if header.magic == MAGIC and header.base_offset >= next_offset:
            at, next_offset = boundary, header.base_offset
        else:
            segment.rebuild_indexes()
    while at + HEADER_SIZE <= size:
        base_offset, length, magic, delta = _unpack_extent(data, at)
        end = at + LOG_OVERHEAD + length
        if magic != MAGIC or end < at + HEADER_SIZE or base_offset + delta < next_offset:
            raise _misplaced(segment, position + at)
        if end > size:
            break
        at, next_offset = end, base_offset + delta + 1
    return at, next_offset


def _header(segment: Segment, data: Bytes, position: int, at: int, offset: int) -> BatchHeader:
    """The header of a batch that must not end before `offset`."""
    header = read_header(data, at)
    if header.magic != MAGIC or header.size < HEADER_SIZE or header.last_offset < offset:
        raise _misplaced(segment, position + at)
    return header


def _misplaced(segment: Segment, position: int) -> ApiError:
    return corrupt(TornError(segment.path(), position, "this is not the batch that belongs here"))
