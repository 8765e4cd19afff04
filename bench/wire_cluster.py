"""What a cluster is asked over a plain socket: Metadata as newer clients send it, and who leads KRaft."""

import socket
import struct

from bench.wire import _CLIENT_ID, METADATA, _unsigned, connect, read_frame

DESCRIBE_QUORUM = 55
ANSWER_S = 60.0
_NO_TOPIC_ID = bytes(16)
_METADATA_TOPIC = b"__cluster_metadata"


def _framed(key: int, version: int, body: bytes) -> bytes:
    header = struct.pack(">hhih", key, version, 1, len(_CLIENT_ID)) + _CLIENT_ID + b"\0"
    return struct.pack(">i", len(header) + len(body)) + header + body


def metadata_v12(topic: str | None) -> bytes:
    """Of one topic, which is not created, or of all."""
    if topic is None:
        topics = b"\0"
    else:
        name = topic.encode()
        topics = b"\x02" + _NO_TOPIC_ID + _unsigned(len(name) + 1) + name + b"\0"
    return _framed(METADATA, 12, topics + b"\0\0\0")


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
