"""The check every produced batch passes: are these bytes exactly `count` well-formed records?

It accepts what `record.walk` accepts, and makes no object per record. Records of the usual shape are
stepped over with a few comparisons each. Records of one size and shape often follow one another; their
lengths then lie a fixed stride apart, and the columns of those bytes are compared in strided slices, at the
speed of C. What is out of the ordinary, headers among it, is looked at field by field.

The invariant of both fast ways: positions only grow, so that a record whose fields end exactly where its
length says has every field inside of it. Whatever they cannot prove goes to `_careful`, which refuses or
accepts.
"""

from itertools import repeat

from ottla.base.errors import ApiError
from ottla.base.files import Buffer
from ottla.records.record import VARLONG_BYTES_MAX, malformed, read_varint

_STEPS_MIN = 4
_STEPS_MAX = 256
_RUN_RECORDS_MIN = 32
_PLAIN_RECORDS_MAX = 64  # so few are stepped over faster than a run is found

_FLIP_HIGH_BIT = bytes(byte ^ 128 for byte in range(256))
_WITHOUT_HIGH_BIT = bytes(range(128))
_WITH_HIGH_BIT = bytes(range(128, 256))


def check_records(body: Buffer, count: int) -> None:
    """INVALID_RECORD unless `body` is exactly `count` well-formed records."""
    data = body if isinstance(body, bytes) else bytes(body)
    at, left = 0, count
    steps = count if count <= _PLAIN_RECORDS_MAX else _STEPS_MIN
    try:
        while left > 0:
            steps = min(steps, left)
            last, at = _step(data, at, steps)
            left -= steps
            run = _run(data, last, at, left) if left else 0
            at += run * (at - last)
            left -= run
            steps = _STEPS_MIN if run >= _RUN_RECORDS_MIN else min(steps * 4, _STEPS_MAX)
    except IndexError:
        raise _overrun(count, len(data)) from None
    if at != len(data) or count < 0:
        raise malformed(f"{count} records cover {at} of {len(data)} bytes")


def _overrun(count: int, size: int) -> ApiError:
    return malformed(f"{count} records do not fit into {size} bytes")


def _step(data: bytes, at: int, count: int) -> tuple[int, int]:
    """Check `count` records, at least one; where the last of them begins, and where it ends."""
    last = at
    for _ in repeat(None, count):
        last = at
        try:
            stop = _usual(data, at)
        except IndexError:
            stop = 0
        at = stop or _careful(data, at)
    return last, at


def _usual(data: bytes, at: int) -> int:
    """Where a record without headers and with short varints ends; 0 if it is not clearly such a one.

    `over` collects what may not have its high bit set: last bytes of varints, and a negative length.
    """
    byte = data[at]
    over = (byte & 1) << 7
    if byte < 128:
        stop, field = at + 1 + (byte >> 1), at + 2
    else:
        high = data[at + 1]
        over |= high
        stop, field = at + 2 + ((byte & 127 | high << 7) >> 1), at + 3
    if data[field] > 127:  # timestamp delta
        field += 1
        over |= data[field]
    field += 1
    if data[field] > 127:  # offset delta
        field += 1
        if data[field] > 127:
            field += 1
            over |= data[field]
    field += 1
    size = data[field]  # key
    if size < 128:
        field += 1 if size & 1 else 1 + (size >> 1)
    else:
        high = data[field + 1]
        over |= high
        field += 2 if size & 1 else 2 + ((size & 127 | high << 7) >> 1)
    size = data[field]  # value
    if size < 128:
        field += 1 if size & 1 else 1 + (size >> 1)
    else:
        high = data[field + 1]
        over |= high
        field += 2 if size & 1 else 2 + ((size & 127 | high << 7) >> 1)
    if over > 127 or field >= stop:
        return 0
    end = _headers_end(data, field, stop) if data[field] else field + 1
    return stop if end == stop else 0


def _headers_end(data: bytes, at: int, stop: int) -> int:
    """Where the headers end, which they have to say themselves; more than can be there are refused."""
    count, at = read_varint(data, at)
    if not 0 <= count <= stop - at:
        raise malformed(f"{count} headers in {stop - at} bytes")
    for _ in repeat(None, count):
        size = data[at]
        if size < 128 and not size & 1:
            at += 1 + (size >> 1)
        else:
            size, at = read_varint(data, at)
            if size < 0:
                raise malformed("a header without a key")
            at += size
        size = data[at]
        if size < 128:
            at += 1 if size & 1 else 1 + (size >> 1)
        else:
            size, at = read_varint(data, at)
            at += max(size, 0)
    return at


def _careful(data: bytes, start: int) -> int:
    """Where the record ends, every field of it checked."""
    size, at = read_varint(data, start)
    stop = at + size
    if not at < stop <= len(data):
        raise malformed(f"a record of {size} bytes where {len(data) - at} remain")
    _, at = read_varint(data, at + 1, VARLONG_BYTES_MAX)
    _, at = read_varint(data, at)
    for _ in ("key", "value"):
        size, at = read_varint(data, at)
        at += max(size, 0)
    at = _headers_end(data, at, stop)
    if at != stop:
        raise malformed(f"a record of {stop - start} bytes whose fields take {at - start}")
    return stop


def _run(data: bytes, last: int, at: int, left: int) -> int:
    """How many records of at most `left` follow the one from `last` to `at` with its size and shape."""
    stride = at - last
    most = min(left, (len(data) - at) // stride)
    if most < _RUN_RECORDS_MIN or data[at] != data[last]:
        return 0
    shape = _shape(data, last)
    if shape is None:
        return 0
    done, span = 0, _RUN_RECORDS_MIN
    while done < most:
        span = min(span, most - done)
        same = _alike(data, last, at, stride, span, shape)
        done += same
        if same < span:
            break
        at += span * stride
        span *= 4
    return done


_Shape = tuple[list[int], list[int], list[int]]


def _shape(data: bytes, start: int) -> _Shape | None:
    """Of a record that was checked: where its lengths are, where its deltas end, and where they go on."""
    lengths: list[int] = []
    ends, goes_on = [], []
    _, at = read_varint(data, start)
    lengths += range(start, at)
    field = at + 1
    for bytes_max in (VARLONG_BYTES_MAX - 1, 4):  # any value of so many bytes is legal
        first = field
        while data[field] > 127:
            goes_on.append(field - start)
            field += 1
        ends.append(field - start)
        field += 1
        if field - first > bytes_max:
            return None
    for _ in ("key", "value"):
        size, at = read_varint(data, field)
        lengths += range(field, at)
        field = at + max(size, 0)
    if data[field]:
        return None
    return [at - start for at in (*lengths, field)], ends, goes_on


def _alike(data: bytes, last: int, at: int, stride: int, span: int, shape: _Shape) -> int:
    """How many of `span` records from `at` on begin like the one at `last`, before one that does not."""
    lengths, ends, goes_on = shape
    same, stop = span, at + span * stride
    for place in lengths:
        column = data[at + place : stop : stride]
        byte = data[last + place]
        if column.count(byte) < span:
            same = min(same, span - len(column.lstrip(bytes((byte,)))))
    for place in ends:
        column = data[at + place : stop : stride]
        if not column.isascii():
            same = min(same, span - len(column.lstrip(_WITHOUT_HIGH_BIT)))
    for place in goes_on:
        column = data[at + place : stop : stride]
        if not column.translate(_FLIP_HIGH_BIT).isascii():
            same = min(same, span - len(column.lstrip(_WITH_HIGH_BIT)))
    return same
