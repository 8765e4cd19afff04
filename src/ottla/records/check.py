"""The check every produced batch passes: are these bytes exactly `count` well-formed records, and how long
after the batch's base timestamp is the newest of them?

It accepts what `record.walk` accepts, and makes no object per record. Records of the usual shape are
stepped over with a few comparisons each. Records of one size and shape often follow one another; their
lengths then lie a fixed stride apart, and the columns of those bytes are compared in strided slices, at the
speed of C. What is out of the ordinary, headers among it, is looked at field by field.

What a producer sends is held to more (`strict`): offset deltas that count up from 0, no length below -1,
no varint longer than it need be, no more than HEADERS_MAX headers. Batches on a disk are not, since
compaction leaves holes, and what was once taken in stays readable.

The invariant of both fast ways: positions only grow, so that a record whose fields end exactly where its
length says has every field inside of it. Whatever they cannot prove goes to `_careful`, which refuses or
accepts.

A check costs up to a second, so whoever cannot wait that long gives it a `Budget`.
"""

from collections.abc import Callable
from itertools import compress, repeat

from ottla.base.errors import ApiError
from ottla.base.files import Buffer
from ottla.records.record import VARINT_BYTES_MAX, VARLONG_BYTES_MAX, malformed, read_varint

RECORD_BYTES_MIN = 7  # a length, and six fields of one byte
RECORDS_MAX = 1 << 20
HEADERS_MAX = 1 << 20
UNLIMITED = 1 << 62

_BYTES = (bytes, bytearray)
_STEPS_MIN = 4
_STEPS_MAX = 256
_RUN_RECORDS_MIN = 32
_RUN_RECORDS_MAX = 1 << 16
_RUN_SPEED = 16  # so many records of a run cost as much as a step
_PLAIN_RECORDS_MAX = 64  # so few are stepped over faster than a run is found

_FLIP_HIGH_BIT = bytes(byte ^ 128 for byte in range(256))
_WITHOUT_HIGH_BIT = bytes(range(128))
_WITH_HIGH_BIT = bytes(range(128, 256))
_EVEN = bytes(range(0, 256, 2))
_IS_EVEN = bytes((1, 0)) * 128
_UP_TO = tuple(bytes(range(byte + 1)) for byte in range(256))
_EQUAL_TO = tuple(bytes(byte == same for byte in range(256)) for same in range(256))

# How far it is to the next field after a length of one byte; a length below -1 leads out of any record.
_SHORT_FIELD = (1, 1, *(1 << 32 if size & 1 else 1 + (size >> 1) for size in range(2, 128)))
_TIME_DELTA_MAX = 1 << 62  # so that no sum of two leaves 64 bits
# The varints of offset deltas, byte by byte: of less than 64 they have one, of less than _BLOCK two.
_BLOCK = 8192
_HIGH = b"".join(bytes((high,)) * 64 for high in range(128))
_LOW = bytes(range(128, 256, 2)) * ((_RUN_RECORDS_MAX + _BLOCK) // 64)
_MIDDLE = bytes(byte | 128 for byte in _HIGH) * (_RUN_RECORDS_MAX // _BLOCK + 1)
_OFFSETS = (bytes(range(0, 128, 2)) + _LOW[64:_BLOCK], _HIGH)

NO_RECORDS = -(1 << 63)


class Budget:
    """How much may be done before `refill` is asked, which gives leave to look at more items, or raises.

    `items` are records and headers, `bytes` what may come out of compressed bodies."""

    __slots__ = ("_refill", "bytes", "headers", "items")

    def __init__(
        self, items: int = UNLIMITED, bytes_: int = UNLIMITED, refill: Callable[[], int] | None = None
    ) -> None:
        self.items = items
        self.bytes = bytes_
        self.headers = UNLIMITED  # that the batch at hand may still have
        self._refill = refill

    def spend(self, items: int) -> None:
        self.items -= items
        if self.items < 0:
            self.on_overspent()

    def on_overspent(self) -> None:
        if self.headers < 0:
            raise malformed("more headers than a batch of its size may have")
        if self.items < 0:
            self.refill()

    def refill(self) -> None:
        assert self._refill is not None, "an unlimited budget is never used up"
        self.items = self._refill()


def check_records(
    body: Buffer,
    count: int,
    *,
    strict: bool = False,
    budget: Budget | None = None,
    headers_max: int = HEADERS_MAX,
) -> int:
    """INVALID_RECORD unless `body` is exactly `count` well-formed records; the greatest of their timestamp
    deltas, or NO_RECORDS."""
    data = body if isinstance(body, _BYTES) else bytes(body)
    if not 0 <= count * RECORD_BYTES_MIN <= len(data):
        raise _overrun(count, len(data))
    budget = Budget() if budget is None else budget
    budget.headers = headers_max if strict else UNLIMITED
    at, done, newest = 0, 0, NO_RECORDS
    steps = _STEPS_MIN
    try:
        if count <= _PLAIN_RECORDS_MAX:
            budget.spend(count)
            _, at, newest = _step(data, 0, 0, count, NO_RECORDS, strict, budget)
            done = count
        while done < count:
            budget.spend(steps)
            last, at, newest = _step(data, at, done, steps, newest, strict, budget)
            done += steps
            if done == count:
                break
            run, newest = _run(data, last, at, done, count, newest, strict)
            budget.spend(run // _RUN_SPEED)
            at += run * (at - last)
            done += run
            steps = _STEPS_MIN if run >= _RUN_RECORDS_MIN else min(steps * 4, _STEPS_MAX)
            steps = min(steps, count - done, _BLOCK - done % _BLOCK)
    except IndexError:
        raise _overrun(count, len(data)) from None
    if at != len(data):
        raise malformed(f"{count} records cover {at} of {len(data)} bytes")
    return newest


def _overrun(count: int, size: int) -> ApiError:
    return malformed(f"{count} records do not fit into {size} bytes")


def _step(
    data: bytes | bytearray, at: int, first: int, count: int, newest: int, strict: bool, budget: Budget
) -> tuple[int, int, int]:
    """Check the records with the offset deltas from `first` on, `count` of them. Where the last of them
    begins, where it ends, and the greatest timestamp delta.

    All of this is for records with short varints; a call for each field, or for each record, would cost more
    than the rest. What may not have its high bit set is collected in `over`: the last bytes of varints, which
    may not be 0 either, and negative lengths.
    """
    last, top = at, first // _BLOCK
    begin, end = first % _BLOCK, first % _BLOCK + count
    lows, mids = (_LOW, _MIDDLE) if top else _OFFSETS
    for low, mid in zip(lows[begin:end], mids[begin:end]):  # noqa: B905 - asking costs a tenth of a record
        last = at
        try:
            byte = data[at]
            over = (byte & 1) << 7
            if byte < 128:
                stop, field = at + 1 + (byte >> 1), at + 2
            else:
                high = data[at + 1]
                over |= high or 128
                stop, field = at + 2 + ((byte & 127 | high << 7) >> 1), at + 3
            delta = data[field]
            if delta > 127:
                field += 1
                high = data[field]
                if high > 127:
                    field += 1
                    delta, high = delta & 127 | high << 7 & 16256 | data[field] << 14, data[field]
                else:
                    delta = delta & 127 | high << 7
                over |= high or 128
            if data[field + 1] != low or (mid and data[field + 2] != mid) or (top and data[field + 3] != top):
                field = _offset_end(data, field + 1)
                over |= strict << 7
            else:
                field += 2 + (mid > 0) + (top > 0)
            size = data[field]  # key
            if size < 128:
                field += _SHORT_FIELD[size]
            else:
                high = data[field + 1]
                over |= (high or 128) | size << 7 & 128
                field += 2 + ((size & 127 | high << 7) >> 1)
            size = data[field]  # value
            if size < 128:
                field += _SHORT_FIELD[size]
            else:
                high = data[field + 1]
                over |= (high or 128) | size << 7 & 128
                field += 2 + ((size & 127 | high << 7) >> 1)
            if over > 127 or field >= stop:
                at = -1
            else:
                at = _headers_end(data, field, stop, strict, budget) if data[field] else field + 1
        except IndexError:
            stop = at = -1
        if at != stop or at < 0:
            at, delta = _careful(data, last, _offset_delta(low, mid, top), strict, budget)
        else:
            delta = (delta >> 1) ^ -(delta & 1)
        if delta > newest:
            newest = delta
    return last, at, newest


def _offset_end(data: bytes | bytearray, at: int) -> int:
    """Where an offset delta ends that is not the next one, as compaction leaves them. One that is long is
    said to end where everything does, which leaves it to `_careful`."""
    for end in range(at, at + VARINT_BYTES_MAX - 1):
        if data[end] < 128:
            return end + 1
    return len(data)


def _offset_delta(low: int, mid: int, top: int) -> int:
    return (low & 127 | (mid & 127) << 7 | top << 14) >> 1


def _headers_end(data: bytes | bytearray, at: int, stop: int, strict: bool, budget: Budget) -> int:
    """Where the headers end, which they have to say themselves; more than can be there are refused."""
    count, at = _varint(data, at, strict)
    if not 0 <= 2 * count <= stop - at:
        raise malformed(f"{count} headers in {stop - at} bytes")
    budget.headers -= count
    budget.items -= count
    if budget.items < 0 or budget.headers < 0:
        budget.on_overspent()
    for _ in repeat(None, count):
        size = data[at]
        if size < 128 and not size & 1:
            at += 1 + (size >> 1)
        else:
            size, at = _varint(data, at, strict)
            if size < 0:
                raise malformed("a header without a key")
            at += size
        size = data[at]
        if size < 128 and (size == 1 or not size & 1):
            at += 1 + (size >> 1)
        else:
            at = _field_end(data, at, strict)
    return at


def _careful(
    data: bytes | bytearray, start: int, offset_delta: int, strict: bool, budget: Budget
) -> tuple[int, int]:
    """Where the record ends, every field of it checked, and its timestamp delta."""
    size, at = _varint(data, start, strict)
    stop = at + size
    if not at < stop <= len(data):
        raise malformed(f"a record of {size} bytes where {len(data) - at} remain")
    time_delta, at = _varint(data, at + 1, strict, VARLONG_BYTES_MAX)
    if strict and not -_TIME_DELTA_MAX <= time_delta <= _TIME_DELTA_MAX:
        raise malformed(f"a timestamp delta of {time_delta}")
    delta, at = _varint(data, at, strict)
    if strict and delta != offset_delta:
        raise malformed(f"an offset delta of {delta} where {offset_delta} belongs")
    for _ in ("key", "value"):
        at = _field_end(data, at, strict)
    at = _headers_end(data, at, stop, strict, budget)
    if at != stop:
        raise malformed(f"a record of {stop - start} bytes whose fields take {at - start}")
    return stop, time_delta


def _field_end(data: bytes | bytearray, at: int, strict: bool) -> int:
    size, at = _varint(data, at, strict)
    if strict and size < -1:
        raise malformed(f"a length of {size}")
    return at + max(size, 0)


def _varint(
    data: bytes | bytearray, at: int, strict: bool, bytes_max: int = VARINT_BYTES_MAX
) -> tuple[int, int]:
    byte = data[at]
    if byte < 128:
        return (byte >> 1) ^ -(byte & 1), at + 1
    value, end = read_varint(data, at, bytes_max)
    if strict and not data[end - 1]:
        raise malformed("a variable-length integer that is longer than it need be")
    return value, end


_Shape = tuple[list[int], list[int], list[int]]


def _run(
    data: bytes | bytearray, last: int, at: int, done: int, count: int, newest: int, strict: bool
) -> tuple[int, int]:
    """How many records, after `done` of `count`, follow the one from `last` to `at` with its size and shape,
    and the greatest timestamp delta."""
    stride = at - last
    most = min(count - done, (len(data) - at) // stride, _RUN_RECORDS_MAX)
    if most < _RUN_RECORDS_MIN or data[at] != data[last]:
        return 0, newest
    shape = _shape(data, last)
    if shape is None:
        return 0, newest
    first, run, span = at, 0, _RUN_RECORDS_MIN
    while run < most:
        span = min(span, most - run)
        same = _alike(data, last, at, stride, span, shape)
        if strict and not (
            _ascends(data, at, stride, same, shape, done + run) and _is_minimal(data, at, stride, same, shape)
        ):
            break
        run += same
        if same < span:
            break
        at += span * stride
        span *= 4
    if run:
        newest = max(newest, _newest(data, first, stride, run, shape))
    return run, newest


def _ascends(data: bytes | bytearray, at: int, stride: int, span: int, shape: _Shape, delta: int) -> bool:
    """Do the offset deltas of `span` records count up from `delta`?"""
    (time_end, end), stop = shape[1], at + span * stride
    columns = [data[at + position : stop : stride] for position in range(time_end + 1, end + 1)]
    if len(columns) == 1:
        return columns[0] == bytes(range(min(2 * delta, 128), min(2 * (delta + span), 128), 2))
    low = delta % 64
    if columns[0] != _LOW[low : low + span]:
        return False
    if len(columns) == 2:
        return columns[1] == _HIGH[delta : delta + span]
    middle = delta % _BLOCK
    high = b"".join(
        bytes((top & 127,)) * _BLOCK for top in range(delta // _BLOCK, (delta + span) // _BLOCK + 1)
    )
    return (
        len(columns) == 3
        and delta + span <= RECORDS_MAX
        and columns[1] == _MIDDLE[middle : middle + span]
        and columns[2] == high[middle : middle + span]
    )


def _is_minimal(data: bytes | bytearray, at: int, stride: int, span: int, shape: _Shape) -> bool:
    """Is no timestamp delta of `span` records longer than it need be?"""
    time_end, goes_on = shape[1][0], shape[2]
    is_short = not goes_on or goes_on[0] > time_end
    return is_short or 0 not in data[at + time_end : at + span * stride : stride]


def _newest(data: bytes | bytearray, at: int, stride: int, span: int, shape: _Shape) -> int:
    """The greatest timestamp delta of `span` records of one shape from `at` on.

    Only those that are greatest in a column go on to the next one, most significant column first. They mostly
    lie side by side, as time goes on; then this too is done in slices.
    """
    _, (end, _), goes_on = shape
    begin, stop = min([end, *goes_on]), at + span * stride
    columns = [data[at + position : stop : stride] for position in range(end, begin - 1, -1)]
    lowest = columns[-1]
    negative = len(lowest.translate(None, _EVEN))
    if negative == span:  # these sort the other way round
        return max(
            read_varint(data, position, VARLONG_BYTES_MAX)[0] for position in range(at + begin, stop, stride)
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


def _shape(data: bytes | bytearray, start: int) -> _Shape | None:
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


def _alike(data: bytes | bytearray, last: int, at: int, stride: int, span: int, shape: _Shape) -> int:
    """How many of `span` records from `at` on begin like the one at `last`, before one that does not."""
    lengths, ends, goes_on = shape
    same, stop = span, at + span * stride
    for position in lengths:
        column = data[at + position : stop : stride]
        byte = data[last + position]
        if column.count(byte) < span:
            same = min(same, span - len(column.lstrip(bytes((byte,)))))
    for position in ends:
        column = data[at + position : stop : stride]
        if not column.isascii():
            same = min(same, span - len(column.lstrip(_WITHOUT_HIGH_BIT)))
    for position in goes_on:
        column = data[at + position : stop : stride]
        if not column.translate(_FLIP_HIGH_BIT).isascii():
            same = min(same, span - len(column.lstrip(_WITH_HIGH_BIT)))
    return same
