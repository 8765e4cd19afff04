"""What a cluster is asked over a plain socket: Metadata as newer clients send it, who leads KRaft,
all that a logger has to say, and to elect preferred leaders."""

import socket
import struct

from bench.wire import _CLIENT_ID, METADATA, _unsigned, connect, read_frame

ELECT_LEADERS, ALTER_CONFIGS, DESCRIBE_QUORUM = 43, 44, 55
BROKER_LOGGER = 8
ANSWER_S = 60.0
_NO_TOPIC_ID = bytes(16)
_METADATA_TOPIC = b"__cluster_metadata"


def _framed(key: int, version: int, body: bytes, *, is_flexible: bool = True) -> bytes:
    tags = b"\0" if is_flexible else b""
    header = struct.pack(">hhih", key, version, 1, len(_CLIENT_ID)) + _CLIENT_ID + tags
    return struct.pack(">i", len(header) + len(body)) + header + body


def metadata_v12(topic: str | None) -> bytes:
    """Of one topic, which is not created, or of all."""
    if topic is None:
        topics = b"\0"
    else:
        name = topic.encode()
        topics = b"\x02" + _NO_TOPIC_ID + _unsigned(len(name) + 1) + name + b"\0"
    return _framed(METADATA, 12, topics + b"\0\0\0")


def log_everything(broker: int, logger: str) -> bytes:
    """IncrementalAlterConfigs v0: a logger of a broker at DEBUG."""
    level = struct.pack(">i", 1) + _text(logger) + b"\0" + _text("DEBUG")
    body = struct.pack(">ib", 1, BROKER_LOGGER) + _text(str(broker)) + level + b"\0"
    return _framed(ALTER_CONFIGS, 0, body, is_flexible=False)


def elect_preferred_leaders() -> bytes:
    """ElectLeaders v1, of all partitions; for the controller."""
    return _framed(ELECT_LEADERS, 1, struct.pack(">bii", 0, -1, int(ANSWER_S * 1000)), is_flexible=False)


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def ask(sock: socket.socket, request: bytes) -> int:
    """One request and its answer; how long that is, in bytes."""
    sock.sendall(request)
    left = 4 + int.from_bytes(_exactly(sock, 4), "big")
    size, buffer = left, bytearray(1 << 20)
    left -= 4
    while left:
        taken = sock.recv_into(buffer, min(left, len(buffer)))
        if not taken:
            raise ConnectionError("the broker closed the connection")
        left -= taken
    return size


def _exactly(sock: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        more = sock.recv(count - len(found))
        if not more:
            raise ConnectionError("the broker closed the connection")
        found += more
    return found


def quorum_leader(host: str, port: int) -> int:
    """KRaft's active controller; -1 while there is none. In Metadata, a broker names just any broker."""
    name = _unsigned(len(_METADATA_TOPIC) + 1) + _METADATA_TOPIC
    body = b"\x02" + name + b"\x02" + struct.pack(">i", 0) + b"\0\0\0"
    with connect(host, port, ANSWER_S) as sock:
        sock.sendall(_framed(DESCRIBE_QUORUM, 0, body))
        frame = read_frame(sock)
    if int.from_bytes(frame[9:11], "big"):
        return -1
    at = frame.index(_METADATA_TOPIC) + len(_METADATA_TOPIC)
    _count, _partition, error, leader = struct.unpack_from(">bihi", frame, at)
    return -1 if error else int(leader)
