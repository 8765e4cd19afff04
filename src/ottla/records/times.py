"""The timestamps of records, without looking at the rest of them.

One step per record in Python, so the steps are few: lengths and timestamp deltas of one or two bytes are
written out. The body is the uncompressed one. It may be one that nobody has checked: whatever leads out of it
is INVALID_RECORD.
"""

from collections.abc import Callable, Iterator
from itertools import repeat

from ottla.base.files import Buffer
from ottla.records.record import VARLONG_BYTES_MAX, malformed, read_varint

_PAUSE_RECORDS = 2_048


def walk_times(body: Buffer, count: int) -> Iterator[tuple[int, bool]]:
    """The timestamp delta of each record, and whether it has a key."""
    at = 0
    try:
        for _ in repeat(None, count):
            size, at = read_varint(body, at)
            time_delta, field = read_varint(body, at + 1, VARLONG_BYTES_MAX)
            _, field = read_varint(body, field)
            yield time_delta, not body[field] & 1
            if size < 0:
                raise malformed(f"a record of {size} bytes")
            at += size
    except IndexError:
        raise malformed(f"{count} records do not fit into {len(body)} bytes") from None


def first_since(
    body: Buffer, count: int, time_delta: int, offset_delta: int, pause: Callable[[], None] = lambda: None
) -> tuple[int, int] | None:
    """The offset delta and the timestamp delta of the first record that has at least these. `pause` is called
    every millisecond or so."""
    data = bytes(body) if isinstance(body, memoryview) else body
    at, end = 0, len(data)
    try:
        for done in range(0, count, _PAUSE_RECORDS):
            for _ in repeat(None, min(count - done, _PAUSE_RECORDS)):
                size = data[at]
                if size < 128:
                    stop, at = at + 1 + (size >> 1), at + 2
                elif data[at + 1] < 128:
                    stop, at = at + 2 + ((size & 127 | data[at + 1] << 7) >> 1), at + 3
                else:
                    length, at = read_varint(data, at)
                    stop, at = at + length, at + 1
                delta = data[at]
                if delta > 127:
                    delta, after = read_varint(data, at, VARLONG_BYTES_MAX)
                else:
                    delta, after = delta >> 1 ^ -(delta & 1), at + 1
                if delta >= time_delta and (offset := read_varint(data, after)[0]) >= offset_delta:
                    return offset, delta
                if size & 1 or stop > end:
                    raise malformed(f"a record that ends at {stop} of {end}")
                at = stop
            pause()
    except IndexError:
        raise malformed(f"{count} records do not fit into {end} bytes") from None
    return None
