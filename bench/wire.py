"""Just enough of the Kafka protocol for pre-encoded requests, without the broker's own code.

Produce v9 (flexible), Fetch v11 and Metadata v4 are spoken by every broker under test. The reply to Produce
has its error code at a place that depends only on the topic's name, so the hot loop needs no decoder.
"""

import socket
import struct

from crc32c import crc32c

PRODUCE, FETCH, METADATA = 0, 1, 3
UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER = 3, 5, 6
RETRIABLE = frozenset({UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER})

BATCH_HEADER_BYTES = 61
_BATCH_HEAD = struct.Struct(">qiibI")
_BATCH_BODY = struct.Struct(">hiqqqhii")
_TIMESTAMP_MS = 1_700_000_000_000
_CLIENT_ID = b"bench"


def _unsigned(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _zigzag(value: int) -> bytes:
    return _unsigned(value << 1 if value >= 0 else ~(value << 1))


def _record(offset_delta: int, value: bytes) -> bytes:
    body = b"\0\0" + _zigzag(offset_delta) + _zigzag(-1) + _zigzag(len(value)) + value + b"\0"
    return _zigzag(len(body)) + body


def record_batch(value: bytes, batch_bytes_max: int) -> tuple[bytes, int]:
    """One v2 batch with as many copies of `value` as fit (at least one), and how many those are."""
    records: list[bytes] = []
    size = BATCH_HEADER_BYTES
    while True:
        record = _record(len(records), value)
        if records and size + len(record) > batch_bytes_max:
            break
        records.append(record)
        size += len(record)
        if size >= batch_bytes_max:
            break
    count = len(records)
    body = _BATCH_BODY.pack(0, count - 1, _TIMESTAMP_MS, _TIMESTAMP_MS, -1, -1, -1, count) + b"".join(records)
    return _BATCH_HEAD.pack(0, size - 12, -1, 2, crc32c(body)) + body, count


def produce_request(topic: str, batch: bytes, timeout_ms: int = 30_000) -> bytes:
    """A framed Produce v9 with acks=all for partition 0."""
    name = topic.encode()
    header = struct.pack(">hhih", PRODUCE, 9, 1, len(_CLIENT_ID)) + _CLIENT_ID + b"\0"
    partition = struct.pack(">i", 0) + _unsigned(len(batch) + 1) + batch + b"\0"
    topics = b"\x02" + _unsigned(len(name) + 1) + name + b"\x02" + partition + b"\0"
    body = b"\0" + struct.pack(">hi", -1, timeout_ms) + topics + b"\0"
    return struct.pack(">i", len(header) + len(body)) + header + body


def metadata_request(topic: str) -> bytes:
    """A framed Metadata v4 that asks for `topic` and lets the broker create it."""
    name = topic.encode()
    header = struct.pack(">hhih", METADATA, 4, 2, len(_CLIENT_ID)) + _CLIENT_ID
    body = struct.pack(">ih", 1, len(name)) + name + b"\x01"
    return struct.pack(">i", len(header) + len(body)) + header + body


def fetch_request(topic: str, offset: int, bytes_max: int, *, wait_ms: int = 0) -> bytes:
    """A framed Fetch v11 of partition 0, without a session, that waits so long for a first byte."""
    name = topic.encode()
    header = struct.pack(">hhih", FETCH, 11, 3, len(_CLIENT_ID)) + _CLIENT_ID
    limits = struct.pack(">iiiibii", -1, wait_ms, min(wait_ms, 1), bytes_max, 0, 0, -1)
    partition = struct.pack(">iiqqi", 0, -1, offset, -1, bytes_max)
    topics = struct.pack(">ih", 1, len(name)) + name + struct.pack(">i", 1) + partition
    body = limits + topics + struct.pack(">ih", 0, 0)
    return struct.pack(">i", len(header) + len(body)) + header + body


def fetch_error(frame: bytes, topic: str) -> int:
    """The error code of the only partition in a reply to `fetch_request`."""
    at = 4 + 4 + 4 + 2 + 4 + 4 + 2 + len(topic.encode()) + 4 + 4
    return int.from_bytes(frame[at : at + 2], "big", signed=True)


def fetch_records_offset(topic: str) -> int:
    """Where the records of the only partition begin in a framed reply to `fetch_request`, if no transaction
    was aborted there."""
    return 4 + 4 + 4 + 2 + 4 + 4 + 2 + len(topic.encode()) + 4 + 4 + 2 + 8 + 8 + 8 + 4 + 4 + 4


def error_offset(topic: str) -> int:
    """Where the error code stands in a framed Produce v9 reply for one topic and one partition."""
    name = topic.encode()
    return 4 + 4 + 1 + 1 + len(_unsigned(len(name) + 1)) + len(name) + 1 + 4


def connect(host: str, port: int, timeout_s: float) -> socket.socket:
    sock = socket.create_connection((host, port), timeout=timeout_s)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def read_frame(sock: socket.socket) -> bytes:
    """One framed reply, length included. Replies to one request at a time nearly always arrive whole."""
    frame = sock.recv(65536)
    while len(frame) < 4 or len(frame) < 4 + int.from_bytes(frame[:4], "big"):
        more = sock.recv(65536)
        if not more:
            raise ConnectionError("the broker closed the connection")
        frame += more
    return frame


def produce_error(frame: bytes, at: int) -> int:
    return int.from_bytes(frame[at : at + 2], "big", signed=True)
