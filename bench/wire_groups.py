"""The requests of consumer groups, and how a transactional producer begins: encoded by hand, without the
broker's own code.

Versions that every broker under test speaks and that need little decoding: the last ones that are not
flexible for the classic protocol, ListGroups v4 and ConsumerGroupHeartbeat v1 for the rest.
"""

import struct

from bench.wire import _CLIENT_ID, _unsigned

OFFSET_COMMIT, FIND_COORDINATOR, JOIN, LEAVE, SYNC, HEARTBEAT, LIST, MODERN = 8, 10, 11, 13, 14, 12, 16, 68
INIT_PRODUCER_ID = 22
LOADING, NOT_AVAILABLE, NOT_COORDINATOR = 14, 15, 16
ILLEGAL_GENERATION, UNKNOWN_MEMBER, REBALANCE, MEMBER_ID_REQUIRED = 22, 25, 27, 79
CONCURRENT_TRANSACTIONS = 51
RETRIABLE = frozenset({LOADING, NOT_AVAILABLE, NOT_COORDINATOR})
FENCED_EPOCH = 110

REBALANCE_MS = 60_000
TRANSACTION_MS = 60_000
SESSION_MS = 1_800_000
"""The longest that a broker allows: members that nobody drives stay."""


def _framed(key: int, version: int, body: bytes, flexible: bool = False) -> bytes:
    header = (
        struct.pack(">hhih", key, version, 1, len(_CLIENT_ID)) + _CLIENT_ID + (b"\0" if flexible else b"")
    )
    return struct.pack(">i", len(header) + len(body)) + header + body


def _text(value: str | None) -> bytes:
    if value is None:
        return b"\xff\xff"
    encoded = value.encode()
    return struct.pack(">h", len(encoded)) + encoded


def _blob(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


def _compact(value: str | None) -> bytes:
    if value is None:
        return b"\0"
    encoded = value.encode()
    return _unsigned(len(encoded) + 1) + encoded


class Reader:
    """Walks a reply, from behind the length, the correlation id and, if it is flexible, the header's tags."""

    def __init__(self, frame: bytes, flexible: bool = False) -> None:
        self.frame, self.at = frame, 9 if flexible else 8

    def number(self, code: str) -> int:
        (value,) = struct.unpack_from(f">{code}", self.frame, self.at)
        self.at += struct.calcsize(code)
        return int(value)

    def take(self, count: int) -> bytes:
        self.at += count
        return self.frame[self.at - count : self.at]

    def text(self) -> str:
        return self.take(max(self.number("h"), 0)).decode()

    def blob(self) -> bytes:
        return self.take(self.number("i"))

    def unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self.frame[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def compact(self) -> str:
        return self.take(max(self.unsigned() - 1, 0)).decode()


# -- offsets ---------------------------------------------------------------------------------------


def find_coordinator(group: str) -> bytes:
    return _framed(FIND_COORDINATOR, 1, _text(group) + b"\0")


def find_transaction_coordinator(transactional_id: str) -> bytes:
    return _framed(FIND_COORDINATOR, 1, _text(transactional_id) + b"\1")


def init_producer_id(transactional_id: str) -> bytes:
    return _framed(INIT_PRODUCER_ID, 1, _text(transactional_id) + struct.pack(">i", TRANSACTION_MS))


def commit(group: str, member: str, generation: int, topic: str, partitions: range, offset: int) -> bytes:
    """OffsetCommit v7."""
    each = b"".join(struct.pack(">iqih", index, offset, -1, 0) for index in partitions)
    topics = struct.pack(">i", 1) + _text(topic) + struct.pack(">i", len(partitions)) + each
    return _framed(
        OFFSET_COMMIT, 7, _text(group) + struct.pack(">i", generation) + _text(member) + _text(None) + topics
    )


def commit_error_offset(topic: str) -> int:
    """Where the error code of the first partition stands in a reply to `commit`."""
    return 4 + 4 + 4 + 4 + 2 + len(topic.encode()) + 4 + 4


# -- the classic protocol --------------------------------------------------------------------------


def join(group: str, member: str, topic: str) -> bytes:
    """JoinGroup v5 with the assignor `range`."""
    subscription = struct.pack(">hi", 0, 1) + _text(topic) + struct.pack(">i", -1)
    body = _text(group) + struct.pack(">ii", SESSION_MS, REBALANCE_MS) + _text(member) + _text(None)
    return _framed(
        JOIN, 5, body + _text("consumer") + struct.pack(">i", 1) + _text("range") + _blob(subscription)
    )


class Joined:
    """A reply to `join`."""

    def __init__(self, frame: bytes) -> None:
        reader = Reader(frame)
        reader.number("i")
        self.error = reader.number("h")
        self.generation = reader.number("i")
        reader.text()
        self.leader, self.member = reader.text(), reader.text()
        self.members: list[str] = []
        for _ in range(reader.number("i")):
            self.members.append(reader.text())
            reader.text()
            reader.blob()


def sync(group: str, member: str, generation: int, shares: dict[str, bytes]) -> bytes:
    """SyncGroup v3."""
    body = _text(group) + struct.pack(">i", generation) + _text(member) + _text(None)
    each = b"".join(_text(who) + _blob(share) for who, share in shares.items())
    return _framed(SYNC, 3, body + struct.pack(">i", len(shares)) + each)


def share(topic: str, partitions: list[int]) -> bytes:
    """An assignment, as consumers agree on it."""
    listed = struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
    return struct.pack(">hi", 0, 1) + _text(topic) + listed + struct.pack(">i", -1)


def synced(frame: bytes) -> tuple[int, list[int]]:
    """The error and the partitions of a reply to `sync`."""
    reader = Reader(frame)
    reader.number("i")
    error = reader.number("h")
    given = Reader(reader.blob())
    if error or not given.frame:
        return error, []
    given.at = 2
    partitions: list[int] = []
    for _ in range(given.number("i")):
        given.text()
        partitions += [given.number("i") for _ in range(given.number("i"))]
    return error, partitions


def heartbeat(group: str, member: str, generation: int) -> bytes:
    """Heartbeat v3."""
    return _framed(HEARTBEAT, 3, _text(group) + struct.pack(">i", generation) + _text(member) + _text(None))


def leave(group: str, members: list[str]) -> bytes:
    """LeaveGroup v3 for all of them at once."""
    each = b"".join(_text(member) + _text(None) for member in members)
    return _framed(LEAVE, 3, _text(group) + struct.pack(">i", len(members)) + each)


def simple_error(frame: bytes) -> int:
    """Of a reply that begins with a throttle time and an error: Heartbeat, LeaveGroup, FindCoordinator."""
    return int.from_bytes(frame[12:14], "big", signed=True)


# -- the new protocol, and both --------------------------------------------------------------------


def modern(group: str, member: str, epoch: int, topic: str, owned: dict[bytes, list[int]] | None) -> bytes:
    """ConsumerGroupHeartbeat v1: all of it when it joins, else only what it owns, if that has changed."""
    is_joining = epoch == 0
    names = b"\x02" + _compact(topic) if is_joining else b"\0"
    body = _compact(group) + _compact(member) + struct.pack(">i", epoch) + b"\0\0"
    body += struct.pack(">i", REBALANCE_MS if is_joining else -1) + names + b"\0" + b"\0"
    return _framed(MODERN, 1, body + _owned(owned) + b"\0", flexible=True)


def _owned(owned: dict[bytes, list[int]] | None) -> bytes:
    if owned is None:
        return b"\0"
    each = [
        topic_id + _unsigned(len(numbers) + 1) + struct.pack(f">{len(numbers)}i", *numbers) + b"\0"
        for topic_id, numbers in owned.items()
    ]
    return _unsigned(len(each) + 1) + b"".join(each)


class Beat:
    """A reply to `modern`. `assignment` is None if it is as it was."""

    def __init__(self, frame: bytes) -> None:
        reader = Reader(frame, flexible=True)
        reader.number("i")
        self.error = reader.number("h")
        reader.compact()
        reader.compact()
        self.epoch, self.interval_ms = reader.number("i"), reader.number("i")
        self.assignment: dict[bytes, list[int]] | None = None
        if reader.number("b") > 0:
            self.assignment = {}
            for _ in range(reader.unsigned() - 1):
                topic_id = reader.take(16)
                self.assignment[topic_id] = [reader.number("i") for _ in range(reader.unsigned() - 1)]
                reader.unsigned()


def list_stable() -> bytes:
    """ListGroups v4 for groups that are Stable."""
    return _framed(LIST, 4, b"\x02" + _compact("Stable") + b"\0", flexible=True)


def is_listed(frame: bytes, group: str) -> bool:
    return _compact(group) in frame
