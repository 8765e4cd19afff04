"""Headers against kio's."""

import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.request_header.v1.header import RequestHeader as HeaderV1
from kio.schema.request_header.v2.header import RequestHeader as HeaderV2
from kio.serial import entity_writer
from kio.static.primitive import i16, i32

from ottla.wire.header import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    request_is_flexible,
    response_header,
    response_is_flexible,
)
from ottla.wire.messages import FLEXIBLE_SINCE
from ottla.wire.primitives import ProtocolError

KEYS = st.sampled_from(sorted(FLEXIBLE_SINCE))
CLIENT_IDS = st.none() | st.text(max_size=20)


@given(KEYS, st.integers(0, 20), st.integers(-(2**31), 2**31 - 1), CLIENT_IDS)
def test_a_request_header_is_what_kio_writes(
    key: int, version: int, correlation: int, client: str | None
) -> None:
    theirs = HeaderV2 if request_is_flexible(key, version) else HeaderV1
    buffer = io.BytesIO()
    header = theirs(
        request_api_key=i16(key),
        request_api_version=i16(version),
        correlation_id=i32(correlation),
        client_id=client,
    )
    entity_writer(theirs)(buffer, header)
    ours = RequestHeader(key, version, correlation, client)
    assert encode_request_header(ours) == buffer.getvalue()
    assert decode_request_header(memoryview(buffer.getvalue() + b"body")) == (ours, len(buffer.getvalue()))


def test_unknown_tags_of_a_header_are_stepped_over() -> None:
    wire = struct.pack(">hhih", 3, 9, 7, -1) + b"\1\0\2??" + b"body"
    assert decode_request_header(memoryview(wire)) == (RequestHeader(3, 9, 7, None), len(wire) - 4)


def test_an_api_that_is_never_flexible_has_the_old_header() -> None:
    wire = encode_request_header(RequestHeader(17, 1, 7, "me"), {17: None})
    assert wire == struct.pack(">hhih", 17, 1, 7, 2) + b"me"


def test_a_header_cut_at_any_byte_is_refused() -> None:
    for version in (8, 9):
        wire = encode_request_header(RequestHeader(3, version, 7, "client"))
        for cut in range(len(wire)):
            with pytest.raises(ProtocolError):
                decode_request_header(memoryview(wire[:cut]))


def test_an_unknown_key_is_refused_from_the_first_four_bytes() -> None:
    with pytest.raises(ProtocolError, match="no API with key 999"):
        decode_request_header(memoryview(struct.pack(">hh", 999, 0)))


def test_a_client_id_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(ProtocolError, match="utf-8"):
        decode_request_header(memoryview(struct.pack(">hhih", 3, 0, 0, 1) + b"\xff"))


@pytest.mark.parametrize("flexible", [False, True])
def test_a_response_header_goes_there_and_back(flexible: bool) -> None:
    wire = response_header(-5, flexible)
    assert len(wire) == 4 + flexible
    assert decode_response_header(memoryview(wire + b"body"), flexible) == (-5, len(wire))
    for cut in range(len(wire)):
        with pytest.raises(ProtocolError):
            decode_response_header(memoryview(wire[:cut]), flexible)


def test_the_answer_to_api_versions_always_has_the_oldest_header() -> None:
    assert request_is_flexible(18, 4)
    assert not response_is_flexible(18, 4)
    assert response_is_flexible(3, 9)
    assert not response_is_flexible(3, 8)
