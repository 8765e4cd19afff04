"""The check every produced batch passes: are these bytes exactly `count` well-formed records, and how long
after the batch's base timestamp is the newest of them?

It accepts what `record.walk` accepts, and makes no object per record. Records of the usual shape are
stepped over with a few comparisons each. Records of one size and shape often follow one another; their
lengths then lie a fixed stride apart, and the columns of those bytes are compared in strided slices, at the
speed of C. What is out of the ordinary, headers among it, is looked at field by field.

The invariant of both fast ways: positions only grow, so that a record whose fields end exactly where its
length says has every field inside of it. Whatever they cannot prove goes to `_careful`, which refuses or
accepts.
"""

from itertools import compress, repeat

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
_EVEN = bytes(range(0, 256, 2))
_IS_EVEN = bytes((1, 0)) * 128
_UP_TO = tuple(bytes(range(byte + 1)) for byte in range(256))
_EQUAL_TO = tuple(bytes(byte == same for byte in range(256)) for same in range(256))

NO_RECORDS = -(1 << 63)


def check_records(body: Buffer, count: int) -> int:
    """INVALID_RECORD unless `body` is exactly `count` well-formed records; the greatest of their timestamp
    deltas, or NO_RECORDS."""
    data = body if isinstance(body, bytes) else bytes(body)
    at, left, newest = 0, count, NO_RECORDS
    steps = count if count <= _PLAIN_RECORDS_MAX else _STEPS_MIN
    try:
        while left > 0:
            steps = min(steps, left)
            last, at, newest = _step(data, at, steps, newest)
            left -= steps
            run = 0
            if left:
                run, newest = _run(data, last, at, left, newest)
            at += run * (at - last)
            left -= run
            steps = _STEPS_MIN if run >= _RUN_RECORDS_MIN else min(steps * 4, _STEPS_MAX)
    except IndexError:
        raise _overrun(count, len(data)) from None
    if at != len(data) or count < 0:
        raise malformed(f"{count} records cover {at} of {len(data)} bytes")
    return newest


def _overrun(count: int, size: int) -> ApiError:
    return malformed(f"{count} records do not fit into {size} bytes")


def _step(data: bytes, at: int, count: int, newest: int) -> tuple[int, int, int]:
    """Check `count` records, at least one; where the last of them begins, where it ends, and the greatest
    timestamp delta.

    All of this is for records with short varints; a call for each field, or for each record, would cost more
    than the rest. What may not have its high bit set is collected in `over`: last bytes of varints, and a
    negative length.
    """
    last = at
    for _ in repeat(None, count):
        last = at
        try:
            byte = data[at]
            over = (byte & 1) << 7
            if byte < 128:
                stop, field = at + 1 + (byte >> 1), at + 2
            else:
                high = data[at + 1]
                over |= high
                stop, field = at + 2 + ((byte & 127 | high << 7) >> 1), at + 3
            delta = data[field]
            if delta > 127:
                field += 1
                high = data[field]
                over |= high
                delta = delta & 127 | high << 7
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
                at = -1
            else:
                at = _headers_end(data, field, stop) if data[field] else field + 1
        except IndexError:
            stop = at = -1
        if at != stop or at < 0:
            at, delta = _careful(data, last)
        else:
            delta = (delta >> 1) ^ -(delta & 1)
        if delta > newest:
            newest = delta
    return last, at, newest


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


def _careful(data: bytes, start: int) -> tuple[int, int]:
    """Where the record ends, every field of it checked, and its timestamp delta."""
    size, at = read_varint(data, start)
    stop = at + size
    if not at < stop <= len(data):
        raise malformed(f"a record of {size} bytes where {len(data) - at} remain")
    delta, at = read_varint(data, at + 1, VARLONG_BYTES_MAX)
    _, at = read_varint(data, at)
    for _ in ("key", "value"):
        size, at = read_varint(data, at)
        at += max(size, 0)
    at = _headers_end(data, at, stop)
    if at != stop:
        raise malformed(f"a record of {stop - start} bytes whose fields take {at - start}")
    return stop, delta


_Shape = tuple[list[int], list[int], list[int]]


def _run(data: bytes, last: int, at: int, left: int, newest: int) -> tuple[int, int]:
    """How many records of at most `left` follow the one from `last` to `at` with its size and shape, and the
    greatest timestamp delta."""
    stride = at - last
    most = min(left, (len(data) - at) // stride)
    if most < _RUN_RECORDS_MIN or data[at] != data[last]:
        return 0, newest
    shape = _shape(data, last)
    if shape is None:
        return 0, newest
    first, done, span = at, 0, _RUN_RECORDS_MIN
    while done < most:
        span = min(span, most - done)
        same = _alike(data, last, at, stride, span, shape)
        done += same
        if same < span:
            break
        at += span * stride
        span *= 4
    if done:
        newest = max(newest, _newest(data, first, stride, done, shape))
    return done, newest


def _newest(data: bytes, at: int, stride: int, span: int, shape: _Shape) -> int:
    """The greatest timestamp delta of `span` records of one shape from `at` on.

    Only those that are greatest in a column go on to the next one, most significant column first. They mostly
    lie side by side, as time goes on; then this too is done in slices.
    """
    _, (end, _), goes_on = shape
    begin, stop = min([end, *goes_on]), at + span * stride
    columns = [data[at + place : stop : stride] for place in range(end, begin - 1, -1)]
    lowest = columns[-1]
    negative = len(lowest.translate(None, _EVEN))
    if negative == span:  # these sort the other way round
        return max(
            read_varint(data, place, VARLONG_BYTES_MAX)[0] for place in range(at + begin, stop, stride)
        )
    if negative:
        columns = [bytes(compress(column, lowest.translate(_IS_EVEN))) for column in columns]
    zigzag = 0
    while columns:
        column = columns.pop(0)
        byte = max(column.translate(None, _UP_TO[column[-1]]), default=column[-1])
        zigzag = zigzag << 7 | byte & 127
        first, last = column.find(byte), column.rfind(byte) + 1
        if column.count(byte) == last - first:
            columns = [lower[first:last] for lower in columns]
        else:
            columns = [bytes(compress(lower, column.translate(_EQUAL_TO[byte]))) for lower in columns]
    return zigzag >> 1


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
