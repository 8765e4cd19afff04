"""Records with what is around them: one that came, and one that is to be sent."""

from typing import NamedTuple

Pairs = list[tuple[str, bytes | None]]


class Message(NamedTuple):
    """A record as it came, with where it came from."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Pairs


class Outgoing(NamedTuple):
    """A record to be sent. Without a partition, its key decides."""

    key: bytes | None
    value: bytes | None
    headers: Pairs
    partition: int | None = None
    timestamp_ms: int | None = None


def name_bytes(name: str) -> bytes:
    """A header's key as it was sent, which need not be UTF-8 (see `records/record`)."""
    return name.encode("utf-8", "surrogateescape")
