import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.wire.primitives import (
    ProtocolError,
    encode_uvarint,
    skip_tags,
    uvarint,
)


@given(st.integers(0, 2**35 - 1))
def test_an_unsigned_varint_goes_there_and_back(value: int) -> None:
    wire = encode_uvarint(value)
    assert uvarint(wire, 0) == (value, len(wire))
    assert uvarint(memoryview(b"?" + wire), 1) == (value, 1 + len(wire))


def test_a_varint_has_a_longest_form() -> None:
    uvarint(b"\x80" * 4 + b"\0", 0)
    with pytest.raises(ProtocolError, match="longer than 5 bytes"):
        uvarint(b"\x80" * 5 + b"\0", 0)


def test_a_negative_number_has_no_unsigned_form() -> None:
    with pytest.raises(ValueError, match="-1 cannot be"):
        encode_uvarint(-1)


def test_skipping_tags_ends_after_the_last_one() -> None:
    assert skip_tags(b"\2\0\1?\5\2??rest", 0, 12, 10) == (8, 8)
    assert skip_tags(b"\0", 0, 1, 10) == (1, 10)
