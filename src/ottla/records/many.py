"""Many records at once, for whoever sends or prints lines: a body out of columns, and the values of a body.

`builder` takes records one by one, and `record` gives them so. Here the work for a record is done by a few
functions of the interpreter that go over whole columns, which is several times as fast. Rules: the records of
a batch have one timestamp and the same headers, and no value or key is null; all others go to `builder`.

Not obvious: the first varint of a record is its length, so it depends on how long the others are. The offset
delta takes one byte up to 63, two up to 8191, three beyond: the columns are cut there.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from operator import add

from ottla.base.files import Buffer
from ottla.records.batch import MAGIC, NO_PRODUCER_ID, NO_SEQUENCE, BatchHeader
from ottla.records.builder import encode_headers, seal, varint
from ottla.records.compression import Codec
from ottla.records.record import VARLONG_BYTES_MAX, Headers, malformed, read_varint

COUNT_MAX = 1 << 17
_WIDTHS = ((0, 64), (64, 1 << 13), (1 << 13, COUNT_MAX))
_NULL_KEY = b"\x01"
_NO_KEY = _NULL_KEY[0]
_NO_DELTA = b"\x00\x00"  # attributes, and the difference to the timestamp of the batch


class _Lengths(dict[int, bytes]):
    """The varint of every length that was asked for."""

    def __missing__(self, length: int) -> bytes:
        self[length] = encoded = varint(length)
        return encoded


class _FieldSizes(dict[int, int]):
    """How many bytes a key or value of this length takes, with its length before it."""

    def __missing__(self, length: int) -> int:
        self[length] = size = length + len(varint(length))
        return size


class _Openings(dict[int, bytes]):
    """How a record begins whose key and value take so many bytes, and everything else `rest` bytes."""

    def __init__(self, rest: int) -> None:
        super().__init__()
        self._rest = rest

    def __missing__(self, size: int) -> bytes:
        self[size] = opening = varint(self._rest + size) + _NO_DELTA
        return opening


_LENGTHS, _FIELD_SIZES = _Lengths(), _FieldSizes()


def batch_of(
    values: Sequence[bytes],
    keys: Sequence[bytes] | None = None,
    headers: Headers = (),
    *,
    timestamp_ms: int,
    codec: Codec = Codec.NONE,
    producer: tuple[int, int, int] = (NO_PRODUCER_ID, -1, NO_SEQUENCE),
) -> bytearray:
    """`producer` is its id and epoch, and the sequence of the first record."""
    producer_id, producer_epoch, base_sequence = producer
    header = BatchHeader(
        base_offset=0,
        length=0,
        leader_epoch=-1,
        magic=MAGIC,
        crc=0,
        attributes=0,
        last_offset_delta=len(values) - 1,
        base_timestamp=timestamp_ms,
        max_timestamp=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        count=len(values),
    )
    return seal(header, body_of(values, keys, headers), codec)


def body_of(values: Sequence[bytes], keys: Sequence[bytes] | None = None, headers: Headers = ()) -> Buffer:
    if not 0 < len(values) <= COUNT_MAX:
        raise ValueError(f"a batch of {len(values)} records")
    ending = encode_headers(headers)
    parts = []
    for start, stop in _WIDTHS:
        if start >= len(values):
            break
        some = values[start:stop]
        some_keys = None if keys is None else keys[start:stop]
        parts.append(b"".join(chain.from_iterable(_records(some, some_keys, start, ending))))
    return b"".join(parts)


def _records(
    values: Sequence[bytes], keys: Sequence[bytes] | None, start: int, ending: bytes
) -> Iterator[tuple[bytes, ...]]:
    """The parts of each record, whose offset deltas from `start` on are of one length."""
    deltas = map(_LENGTHS.__getitem__, range(start, start + len(values)))
    openings = _Openings(len(_NO_DELTA) + len(varint(start)) + len(ending))
    lengths = list(map(len, values))
    if keys is None:
        sizes = map(add, map(_FIELD_SIZES.__getitem__, lengths), repeat(len(_NULL_KEY)))
        return zip(
            map(openings.__getitem__, sizes), deltas, repeat(_NULL_KEY),
            map(_LENGTHS.__getitem__, lengths), values, repeat(ending),
        )  # fmt: skip
    key_lengths = list(map(len, keys))
    sizes = map(add, map(_FIELD_SIZES.__getitem__, key_lengths), map(_FIELD_SIZES.__getitem__, lengths))
    return zip(
        map(openings.__getitem__, sizes), deltas,
        map(_LENGTHS.__getitem__, key_lengths), keys,
        map(_LENGTHS.__getitem__, lengths), values, repeat(ending),
    )  # fmt: skip


def values_of(body: Buffer, count: int) -> list[bytes | None]:
    """The values of all records of a body, and nothing else of them. INVALID_RECORD, as `walk` says it."""
    data = body if isinstance(body, bytes) else bytes(body)
    values: list[bytes | None] = []
    add_value = values.append
    at, end = 0, len(data)
    try:
        for _ in range(count):
            size, second = data[at], data[at + 1]
            if size < 128:
                at += 1
                stop = at + (size >> 1)
            elif second < 128:
                at += 2
                stop = at + ((size & 127 | second << 7) >> 1)
            else:
                size, at = read_varint(data, at)
                stop = at + size
            at += 2  # the attributes, and most often the whole of the timestamp's difference
            if data[at - 1] > 127:
                _, at = read_varint(data, at - 1, VARLONG_BYTES_MAX)
            if data[at] < 128:
                at += 1
            elif data[at + 1] < 128:
                at += 2
            else:
                _, at = read_varint(data, at)
            at = at + 1 if data[at] == _NO_KEY else _after_field(data, at)
            length, second = data[at], data[at + 1]
            if length < 128:
                at += 1
                length = (length >> 1) ^ -(length & 1)
            elif second < 128 and not length & 1:
                at += 2
                length = (length & 127 | second << 7) >> 1
            else:
                length, at = read_varint(data, at)
            after = at + length if length > 0 else at
            if after + 1 != stop and (after >= stop or not data[after]):
                raise malformed(f"a value that ends at {after} in a record that ends at {stop}")
            add_value(data[at:after] if length >= 0 else None)
            at = stop
    except IndexError:
        raise malformed(f"{count} records do not fit into {end} bytes") from None
    if at != end:  # positions only ever grow, so this proves every record to lie inside the body
        raise malformed(f"{count} records cover {at} of {end} bytes")
    return values


def _after_field(data: bytes, at: int) -> int:
    length, at = read_varint(data, at)
    return at + max(0, length)
