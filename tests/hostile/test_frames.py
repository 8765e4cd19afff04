"""Frames and headers that are wrong, each with the answer Kafka gives: mostly, that connection is closed."""

import struct

import pytest
from tests.hostile.probe import Outcome, Probe
from tests.kafka_clients.harness import BrokerProcess
from tests.kafka_clients.wire_client import Wire, frame_of, framed

from ottla.wire.codec import decode
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.metadata import MetadataRequest

UNSUPPORTED_VERSION = 35

API_VERSIONS_V0 = b"\x00\x12\x00\x00\x00\x00\x00\x01\xff\xff"
METADATA_V0 = b"\x00\x03\x00\x00\x00\x00\x00\x01\xff\xff"
METADATA_V9 = b"\x00\x03\x00\x09\x00\x00\x00\x01\xff\xff"


def outcome_of(broker: BrokerProcess, payload: bytes) -> Outcome:
    probe = Probe(broker.port, 30)
    try:
        return probe.send(payload)
    finally:
        probe.close()


@pytest.mark.parametrize("length", [-1, -(2**31), 104_857_601, 2**31 - 1])
def test_a_length_that_is_negative_or_over_the_limit_closes_at_once(
    broker: BrokerProcess, length: int
) -> None:
    with Wire(broker.port) as wire:
        wire.send_bytes(struct.pack(">i", length))
        assert wire.is_closed_by_peer()


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\x00",
        b"\x00\x12\x00",
        API_VERSIONS_V0[:-3],
        b"\x00\x12\x00\x00\x00\x00\x00\x01\x00\x09short",
        b"\x00\x12\x00\x00\x00\x00\x00\x01\x00\x02\xff\xfe",
        b"\x00\x12\x00\x03\x00\x00\x00\x01\xff\xff\x05\x01\xff",
        b"\x7f\xff\x00\x00\x00\x00\x00\x01\xff\xff",
        b"\xff\xff\x00\x00\x00\x00\x00\x01\xff\xff",
        b"\x00\x04\x00\x00\x00\x00\x00\x01\xff\xff",
        b"\x00\x3a\x00\x00\x00\x00\x00\x01\xff\xff\x00",
    ],
    ids=[
        "empty", "one-byte", "half-a-version", "no-client-id", "client-id-past-the-end", "client-id-not-text",
        "tag-past-the-end", "unknown-key", "negative-key", "removed-key", "controller-key",
    ],
)  # fmt: skip
def test_a_header_that_is_wrong_closes(broker: BrokerProcess, payload: bytes) -> None:
    assert outcome_of(broker, payload) is Outcome.CLOSED


@pytest.mark.parametrize(
    "body",
    [
        b"\x7f\xff\xff\xff",
        b"\x00\x00\x00\x02\x00\x01a",
        b"\x00\x00\x00\x01\xff\xff",
        b"\x00\x00\x00\x01\x7f\xffabc",
        b"\x00\x00\x00\x01\x00\x02\xc3\x28",
        b"\xff\xff\xff\xfe",
    ],
    ids=[
        "huge-count",
        "count-over-what-is-there",
        "null-name",
        "huge-name",
        "name-not-text",
        "negative-count",
    ],
)
def test_a_body_that_is_wrong_closes(broker: BrokerProcess, body: bytes) -> None:
    assert outcome_of(broker, METADATA_V0 + body) is Outcome.CLOSED


@pytest.mark.parametrize(
    "body",
    [
        b"\x00\xff\xff\xff\xff\x0f",
        b"\x00\xff\xff\xff\xff\xff\x01",
        b"\x00\x80\x80\x80\x80\x80",
        b"\x00\x02\xff\xff\xff\xff\x0f",
        b"\x00\x01\x01\x00\x00\x01\x00\xff\xff\xff\xff\x0f",
        b"\x00\x01\x01\x00\x00\x02\x05\x00\x05\x00",
    ],
    ids=[
        "huge-count",
        "varint-of-6-bytes",
        "varint-without-end",
        "huge-name",
        "huge-tag",
        "the-same-tag-twice",
    ],
)
def test_a_flexible_body_that_is_wrong_closes(broker: BrokerProcess, body: bytes) -> None:
    assert outcome_of(broker, METADATA_V9 + body) is Outcome.CLOSED


def test_unknown_tags_are_skipped_and_bytes_after_the_end_ignored(broker: BrokerProcess) -> None:
    probe = Probe(broker.port, 30)
    assert probe.send(METADATA_V9 + b"\x00\x01\x01\x00\x00\x02\x64\x03abc\x65\x00") is Outcome.ANSWERED
    assert probe.send(frame_of(MetadataRequest(topics=[]), 1)[4:] + b"left over") is Outcome.ANSWERED
    probe.close()


def test_a_version_that_is_not_served_closes_except_for_api_versions(broker: BrokerProcess) -> None:
    probe = Probe(broker.port, 30)
    for version in (-1, 14, 32767):
        payload = b"\x00\x03" + struct.pack(">h", version) + b"\x00\x00\x00\x01\xff\xff\x00\x00\x00\x00\x00"
        assert probe.send(payload) is Outcome.CLOSED
    for version in (5, 99, 32767):
        payload = b"\x00\x12" + struct.pack(">h", version) + b"\x00\x00\x00\x09\xff\xff\x00"
        assert probe.send(payload) is Outcome.ANSWERED
        answer = decode(ApiVersionsResponse, 0, memoryview(probe.last_answer), 4)
        assert answer.error_code == UNSUPPORTED_VERSION
        assert answer.api_keys
    probe.close()


def test_frames_that_come_byte_by_byte_or_all_at_once_are_the_same(broker: BrokerProcess) -> None:
    frames = b"".join(frame_of(ApiVersionsRequest(), 0, n) for n in range(500))
    with Wire(broker.port) as wire:
        wire.send_bytes(frames)
        assert [wire.receive(ApiVersionsRequest, 0)[0] for _ in range(500)] == list(range(500))
        for at in range(200):
            wire.send_bytes(frames[at : at + 1])
        complete = 200 // len(framed(frame_of(ApiVersionsRequest(), 0)[4:]))
        assert [wire.receive(ApiVersionsRequest, 0)[0] for _ in range(complete)] == list(range(complete))


def test_a_wrong_frame_costs_nothing_that_was_answered_before_it(broker: BrokerProcess) -> None:
    with Wire(broker.port) as wire:
        wire.send_bytes(frame_of(ApiVersionsRequest(), 0, 7) + struct.pack(">i", -5))
        assert wire.receive(ApiVersionsRequest, 0)[0] == 7
        assert wire.is_closed_by_peer()


def test_another_protocol_is_hung_up_on(broker: BrokerProcess) -> None:
    for greeting in (
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40),
    ):
        with Wire(broker.port) as wire:
            wire.send_bytes(greeting)
            assert wire.is_closed_by_peer()
