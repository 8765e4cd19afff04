"""Lies about requests and record batches: each case is one lie, and says which."""

import random
import struct
from collections.abc import Iterator
from typing import NamedTuple

from tests.hostile.generate import Items, Kind, Part, Sample, uvarint

from ottla.records.batch import HEADER_SIZE, read_header, set_crc
from ottla.records.builder import NewRecord, build_batch, seal
from ottla.records.compression import Codec
from ottla.records.record import open_body

LIES = (0, -1, -2, 2**31 - 1)
SMALL_FRAME = 150
SWELLS = (2, 40, 1_000)
SWOLLEN_BYTES_MAX = 64 << 10
GIANT_SWELLS = (300, 10_000, 60_000)
GIANT_BYTES_MAX = 1 << 20
GIANTS_EVERY = 10
# Varints that are longer than they need be, than 32 bits, and than any varint.
OVERLONG = (b"\x80\x00", b"\xff\xff\xff\xff\x0f", b"\xff" * 9 + b"\x01", b"\xff" * 12)
# In __consumer_offsets it begins as a committed offset does, and ends in the middle of it.
FORGED_KEY = b"\x00\x01\x00\x05grou"
NUMBERS = {
    1: (b"\x00", b"\x01", b"\x7f", b"\x80", b"\xff"),
    2: (b"\x00\x00", b"\x00\x01", b"\x7f\xff", b"\x80\x00", b"\xff\xff"),
    4: (bytes(4), b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff\xff\xff\xff", b"\x00\x01\x00\x00"),
    8: (bytes(8), b"\x7f" + b"\xff" * 7, b"\x80" + bytes(7), b"\xff" * 8, b"\x00\x00\x01" + bytes(5)),
}


class Case(NamedTuple):
    what: str
    frame: bytes


def mutants(sample: Sample, chance: random.Random) -> Iterator[Case]:
    """Everything that can be wrong with one request: thousands of cases for a large one."""
    sound = sample.frame()
    yield Case("sound", sound)
    yield from _cuts(sound, chance)
    for at, part in enumerate(sample.parts):
        for what, data in _lies(part):
            yield Case(f"part {at}, {part.kind.name.lower()}: {what}", _with(sample.parts, at, data))
    yield from _swollen(sample, SWELLS, SWOLLEN_BYTES_MAX)
    for number in range(12):
        yield Case(f"noise {number}", mutated(sound, chance))


def _cuts(sound: bytes, chance: random.Random) -> Iterator[Case]:
    places = range(len(sound))
    for at in places if len(sound) <= SMALL_FRAME else sorted(chance.sample(places, 40)):
        yield Case(f"cut at {at}", sound[:at])
    yield Case("bytes behind the end", sound + b"\x00\x01\x02")


def _lies(part: Part) -> Iterator[tuple[str, bytes]]:
    match part.kind:
        case Kind.LENGTH_16:
            yield from ((f"{n}", struct.pack(">h", min(n, 32767))) for n in LIES)
        case Kind.LENGTH_32 | Kind.COUNT_32:
            yield from ((f"{n}", struct.pack(">i", n)) for n in LIES)
        case Kind.LENGTH_COMPACT | Kind.COUNT_COMPACT | Kind.TAG_SIZE | Kind.TAG:
            yield from ((f"{n}", uvarint((n + 1) & 0xFFFFFFFF)) for n in LIES)
            yield from ((f"varint {data.hex()}", data) for data in OVERLONG)
        case Kind.TAG_COUNT:
            yield from ((f"{n}", uvarint(n & 0xFFFFFFFF)) for n in LIES)
            yield from ((f"varint {data.hex()}", data) for data in OVERLONG)
            unknown = uvarint(1000) + b"\x03abc"
            yield "an unknown tag", b"\x01" + unknown
            yield "a tag twice", b"\x02" + unknown + unknown
            yield "tags that go down", b"\x02" + unknown + b"\x00\x00"
            yield "a tag beyond the end", b"\x01" + uvarint(1000) + uvarint(2**31 - 1)
            yield "many tags", uvarint(3000) + b"".join(uvarint(1000 + n) + b"\x00" for n in range(3000))
        case Kind.NUMBER:
            yield from ((data.hex(), data) for data in NUMBERS.get(len(part.data), (bytes(16), b"\xff" * 16)))
        case Kind.CONTENT:
            if part.data:
                yield "not UTF-8", b"\xff" * len(part.data)
                yield "zeros", bytes(len(part.data))


def _with(parts: list[Part], at: int, data: bytes) -> bytes:
    return b"".join([data if n == at else part.data for n, part in enumerate(parts)])


def giants(sample: Sample) -> Iterator[Case]:
    """Requests of hundreds of kilobytes, with arrays that have very many items."""
    yield from _swollen(sample, GIANT_SWELLS, GIANT_BYTES_MAX)


def _swollen(sample: Sample, swells: tuple[int, ...], bytes_max: int) -> Iterator[Case]:
    """Arrays with many times their items, one by one and all at once: those in arrays multiply."""
    for times in swells:
        for items in sample.arrays:
            frame = _repeated(sample, [items], times, bytes_max)
            if frame is not None:
                yield Case(f"array at part {items.count_at} {times} times", frame)
        frame = _repeated(sample, sample.arrays, times, bytes_max)
        if frame is not None:
            yield Case(f"all arrays {times} times", frame)


def _repeated(sample: Sample, arrays: list[Items], times: int, bytes_max: int) -> bytes | None:
    data = [part.data for part in sample.parts]
    for items in sorted(arrays, key=lambda items: items.begin, reverse=True):
        inner = b"".join(data[items.begin : items.end])
        if len(inner) * times > bytes_max:
            return None
        # In the place of its first part, so that the places of what is around it stay.
        data[items.begin : items.end] = [inner * times] + [b""] * (items.end - items.begin - 1)
        count = items.count * times
        is_compact = sample.parts[items.count_at].kind is Kind.COUNT_COMPACT
        data[items.count_at] = uvarint(count + 1) if is_compact else struct.pack(">i", count)
    return b"".join(data)


def mutated(payload: bytes, chance: random.Random) -> bytes:
    """A few bytes changed, inserted, removed, doubled, or set to what a length should never be."""
    data = bytearray(payload)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        at = chance.randrange(len(data)) if data else 0
        match chance.randrange(6):
            case 0:
                data[at : at + 1] = chance.randbytes(1)
            case 1:
                data[at : at + 4] = struct.pack(">i", chance.choice((*LIES, 2**24, -(2**31))))
            case 2:
                data[at : at + 1] = chance.choice((*OVERLONG, b"\x00"))
            case 3:
                del data[at : at + chance.randrange(1, 9)]
            case 4:
                data[at:at] = chance.randbytes(chance.randrange(1, 9))
            case 5:
                data += data[at : at + 40]
    return bytes(data)


# Record batches


def batches(chance: random.Random) -> Iterator[Case]:
    """Every byte of a batch changed, in the header, in the records and in what they are compressed to; the
    checksum is right again."""
    for codec in Codec:
        sound = bytes(_batch(codec, chance))
        header, body = read_header(sound), bytes(open_body(sound))
        yield Case(f"{codec.label}: sound", sound)
        for at in range(len(sound)):
            for what, byte in _bytes(sound[at], chance):
                made = bytearray(sound)
                made[at] = byte
                set_crc(made)
                yield Case(f"{codec.label}: byte {at} {what}", bytes(made))
        for at in range(len(body)) if codec is not Codec.NONE else ():
            for what, byte in _bytes(body[at], chance):
                changed = body[:at] + bytes((byte,)) + body[at + 1 :]
                yield Case(f"{codec.label}: record byte {at} {what}", bytes(seal(header, changed, codec)))
        for number in range(100):
            made = bytearray(mutated(sound, chance))
            if len(made) > HEADER_SIZE:
                struct.pack_into(">i", made, 8, len(made) - 12)
                set_crc(made)
            yield Case(f"{codec.label}: noise {number}", bytes(made))


def _bytes(byte: int, chance: random.Random) -> Iterator[tuple[str, int]]:
    for what, changed in (
        ("bit 0", byte ^ 1), ("bit 7", byte ^ 0x80), ("all bits", byte ^ 0xFF), ("zero", 0),
        ("any", chance.randrange(256)),
    ):  # fmt: skip
        if changed != byte:
            yield what, changed


def _batch(codec: Codec, chance: random.Random) -> bytearray:
    records = [
        NewRecord(b"key", chance.randbytes(9), [("h", b"1"), ("", None)], 1_700_000_000_000),
        NewRecord(None, chance.randbytes(20), (), 1_700_000_000_001),
        NewRecord(FORGED_KEY, b"\x00\x03", (), 1_700_000_000_002),
    ]
    count = chance.randrange(1, 4)
    if chance.random() < 0.5:
        return build_batch(records[:count], codec=codec)
    return build_batch(records[:count], codec=codec, producer_id=7, producer_epoch=0, base_sequence=0)
