"""The smallest pieces of the protocol: varints, tagged fields to skip, and the one error of this layer.

Rules. A reader takes a view and a position and returns the value and the position after it. It never reads
past the view: an index beyond the end is an `IndexError` here, which the compiled decoders and `header`
turn into `ProtocolError` once.
"""

from typing import Final, TypeAlias

Bytes: TypeAlias = bytes | bytearray | memoryview

STRING_BYTES_MAX: Final = 0x7FFF
"""Kafka bounds every string by a signed 16-bit length, also where the wire has a varint."""

_VARINT_BYTES_MAX: Final = 5


class ProtocolError(ValueError):
    """The bytes are not what the protocol allows. The connection that sent them is closed, unanswered."""


class OverLimitError(ProtocolError):
    """They are well-formed, and more than a broker takes in one request or sends in one answer."""


def uvarint(view: Bytes, at: int) -> tuple[int, int]:
    """An unsigned varint of at most five bytes."""
    value = 0
    for shift in range(0, 7 * _VARINT_BYTES_MAX, 7):
        byte = view[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ProtocolError(f"a varint is longer than {_VARINT_BYTES_MAX} bytes")


def encode_uvarint(value: int) -> bytes:
    if value < 0:
        raise ValueError(f"{value} cannot be an unsigned varint")
    out = bytearray()
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


ONE_BYTE_UVARINTS: Final = tuple(bytes([value]) for value in range(0x80))


def string_uvarint(view: Bytes, at: int) -> tuple[int, int]:
    """The length of a compact string plus one, when its varint has more than one byte."""
    value, at = uvarint(view, at)
    if value > STRING_BYTES_MAX + 1:
        raise ProtocolError(f"a string of {value - 1} bytes is longer than {STRING_BYTES_MAX}")
    return value, at


def encode_string_uvarint(value: int) -> bytes:
    if value > STRING_BYTES_MAX + 1:
        raise ValueError(f"a string of {value - 1} bytes is longer than {STRING_BYTES_MAX}")
    return encode_uvarint(value)


def skip_tags(view: Bytes, at: int, end: int, count_max: int) -> tuple[int, int]:
    """Step over a section of tagged fields, all unknown to us (KIP-482): the position after it, and how many
    more the message may have."""
    count, at = uvarint(view, at)
    if 2 * count > end - at:
        raise ProtocolError(f"{count} tagged fields run past the end")
    if count > count_max:
        raise OverLimitError(f"{count} tagged fields, where this message may have {count_max} more items")
    last = -1
    for _ in range(count):
        tag, at = uvarint(view, at)
        size, at = uvarint(view, at)
        check_tag(tag, last, at + size, end)
        last = tag
        at += size
    return at, count_max - count


def check_tag(tag: int, last: int, to: int, end: int) -> None:
    if tag <= last:
        raise ProtocolError(f"tag {tag} comes after tag {last}")
    if to > end:
        raise ProtocolError(f"tagged field {tag} runs past the end")
