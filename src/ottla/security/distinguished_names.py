"""The name of a certificate's owner, as Java writes it: RFC 2253, with the last part first.

It is what ACLs and mapping rules of Kafka are written for, so it has to be the same to the letter: attributes
that RFC 2253 has no short name for are their numbers, with the value in hexadecimal.
"""

from collections.abc import Iterator
from typing import NamedTuple

# Tags of ASN.1. Java takes the strings among them for UTF-8, whichever they are: UTF8String, PrintableString,
# T61String, IA5String, GeneralString, BMPString.
_VERSION = 0xA0
_STRINGS = {0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E}
_SHORT = {
    "2.5.4.3": "CN", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.9": "STREET", "2.5.4.10": "O",
    "2.5.4.11": "OU", "0.9.2342.19200300.100.1.1": "UID", "0.9.2342.19200300.100.1.25": "DC",
}  # fmt: skip
_ESCAPED = ',=+<>#;"\\'


class Element(NamedTuple):
    tag: int
    content: bytes
    whole: bytes


def owner_of(certificate: bytes) -> str:
    """`certificate` is DER, and has been verified."""
    (outer,) = _elements(certificate)
    signed = next(_elements(outer.content))
    fields = [field for field in _elements(signed.content) if field.tag != _VERSION]
    subject = fields[4]  # after serial number, algorithm, issuer and validity
    return ",".join(reversed([_relative_name(part.content) for part in _elements(subject.content)]))


def _elements(data: bytes) -> Iterator[Element]:
    at = 0
    while at < len(data):
        begin, tag, length, at = at, data[at], data[at + 1], at + 2
        if length & 0x80:
            count = length & 0x7F
            length, at = int.from_bytes(data[at : at + count], "big"), at + count
        yield Element(tag, data[at : at + length], data[begin : at + length])
        at += length


def _relative_name(data: bytes) -> str:
    return "+".join(_attribute(*_elements(attribute.content)) for attribute in _elements(data))


def _attribute(oid: Element, value: Element) -> str:
    number = _number(oid.content)
    name = _SHORT.get(number)
    if name is None or value.tag not in _STRINGS:
        return f"{name or number}=#{value.whole.hex()}"
    return f"{name}={_escape(value.content.decode(errors='replace'))}"


def _number(data: bytes) -> str:
    """An object identifier, with dots. The first two numbers are in one."""
    numbers, number = [], 0
    for octet in data:
        number = number << 7 | octet & 0x7F
        if not octet & 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))


def _escape(text: str) -> str:
    escaped = "".join(f"\\{char}" if char in _ESCAPED else "\\00" if char == "\0" else char for char in text)
    begin = len(escaped) - len(escaped.lstrip(" \r"))
    end = len(escaped.rstrip(" \r"))
    if begin >= end:
        return "".join(f"\\{char}" for char in escaped)
    spaces = [f"\\{char}" for char in escaped[:begin]], [f"\\{char}" for char in escaped[end:]]
    return "".join([*spaces[0], escaped[begin:end], *spaces[1]])
