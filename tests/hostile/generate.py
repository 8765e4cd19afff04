"""Requests made up from their declarations: legal on the wire, and mostly nonsense. All from a seed."""

import random
from typing import Any

from tests.clients.wire_client import batch

from ottla.wire.schema import Array, Blob, Fixed, Kind, Nested, Text, fields_of

NUMBERS = {
    "b": (0, 1, 2, 3, -1, -2, 4, 127, -128),
    "h": (0, 1, 2, -1, -2, 32767, -32768),
    "i": (0, 1, 2, 3, -1, -2, 100, 2**31 - 1, -(2**31)),
    "q": (0, 1, -1, -2, -3, -6, 1_700_000_000_000, 2**63 - 1, -(2**63)),
    "H": (0, 1, 65535),
    "I": (0, 1, 2**32 - 1),
}
# Nothing here names the topic of the healthy client, nor a setting that would cut it off.
TEXTS = ("fuzz", "fuzz-2", "not-there", "", "..", "a/b", "x" * 250, "ünïcödé", "\x00", "1", "-1", "range")
CONFIGS = ("retention.ms", "cleanup.policy", "max.message.bytes", "no.such.key", "")


def instance(cls: type, version: int, chance: random.Random) -> Any:
    values = {}
    for field in fields_of(cls):
        if not field.is_in(version):
            continue
        if field.is_nullable_in(version) and chance.random() < 0.15:
            values[field.name] = None
        elif field.name == "name" and "Config" in cls.__name__:
            values[field.name] = chance.choice(CONFIGS)
        elif field.name.endswith("timeout_ms") or field.name.endswith("wait_ms"):
            values[field.name] = chance.choice((0, 1, 20, -1))
        else:
            values[field.name] = _value(field.kind, version, chance)
    return cls(**values)


def _value(kind: Kind, version: int, chance: random.Random) -> Any:
    match kind:
        case Fixed("?"):
            return chance.random() < 0.5
        case Fixed("16s"):
            return chance.choice((bytes(16), chance.randbytes(16)))
        case Fixed("d"):
            return chance.choice((0.0, -1.5, 1e300))
        case Fixed(code):
            return chance.choice(NUMBERS[code])
        case Text():
            return chance.choice(TEXTS)
        case Blob(by_reference=True):
            return chance.choice((b"", chance.randbytes(80), bytes(batch(b"value", b"other"))))
        case Blob():
            return chance.randbytes(chance.choice((0, 1, 40)))
        case Nested(cls):
            return instance(cls, version, chance)
        case Array(item):
            return [_value(item, version, chance) for _ in range(chance.choice((0, 1, 1, 2, 3)))]


def mutated(payload: bytes, chance: random.Random) -> bytes:
    """A few bytes changed, inserted, removed, doubled, or set to what a length should never be."""
    data = bytearray(payload)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        at = chance.randrange(len(data)) if data else 0
        match chance.randrange(6):
            case 0:
                data[at : at + 1] = chance.randbytes(1)
            case 1:
                data[at : at + 4] = chance.choice((-1, -2, 0, 2**31 - 1, 2**24, -(2**31))).to_bytes(
                    4, "big", signed=True
                )
            case 2:
                data[at : at + 1] = chance.choice(
                    (b"\xff\xff\xff\xff\x0f", b"\xff" * 11, b"\x80" * 5, b"\x00")
                )
            case 3:
                del data[at : at + chance.randrange(1, 9)]
            case 4:
                data[at:at] = chance.randbytes(chance.randrange(1, 9))
            case 5:
                data += data[at : at + 40]
    return bytes(data)
