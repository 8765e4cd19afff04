import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.wire.primitives import (
    ProtocolError,
    encode_uvarint,
    encode_varint,
    skip_tags,
    uvarint,
    varint,
    varlong,
)


@given(st.integers(0, 2**35 - 1))
def test_an_unsigned_varint_goes_there_and_back(value: int) -> None:
    wire = encode_uvarint(value)
    assert uvarint(wire, 0) == (value, len(wire))
    assert uvarint(memoryview(b"?" + wire), 1) == (value, 1 + len(wire))


@given(st.integers(-(2**31), 2**31 - 1))
def test_a_zigzag_varint_goes_there_and_back(value: int) -> None:
    wire = encode_varint(value)
    assert varint(wire, 0) == varlong(wire, 0) == (value, len(wire))


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_zigzag_varlong_goes_there_and_back(value: int) -> None:
    wire = encode_varint(value)
    assert varlong(wire, 0) == (value, len(wire))


def test_small_numbers_of_either_sign_take_one_byte() -> None:
    assert [encode_varint(value) for value in (0, -1, 1, -64, 63)] == [b"\0", b"\1", b"\2", b"\x7f", b"\x7e"]


def test_varints_have_a_longest_form() -> None:
    for read, longest in ((uvarint, 5), (varint, 5), (varlong, 10)):
        read(b"\x80" * (longest - 1) + b"\0", 0)
        with pytest.raises(ProtocolError, match=f"longer than {longest} bytes"):
            read(b"\x80" * longest + b"\0", 0)


def test_a_negative_number_has_no_unsigned_form() -> None:
    with pytest.raises(ValueError, match="-1 cannot be"):
        encode_uvarint(-1)


def test_skipping_tags_ends_after_the_last_one() -> None:
    assert skip_tags(b"\2\0\1?\5\2??rest", 0, 12, 10) == (8, 8)
    assert skip_tags(b"\0", 0, 1, 10) == (1, 10)
