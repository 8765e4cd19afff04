"""OffsetDelete over a plain socket: the one request of `ottla groups` that confluent-kafka does not have.

It goes to the group's coordinator, whose address the group's description gives.
"""

import socket
import struct
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from ottla.cli.cluster import REQUEST_S
from ottla.cli.errors import CommandError
from ottla.wire.codec import decode, encode
from ottla.wire.header import RequestHeader, decode_response_header, encode_request_header
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)

API_KEY, VERSION = 47, 0
ANSWER_BYTES_MAX = 64 << 20


class Refusal(NamedTuple):
    """An error code of Kafka, for a partition or, without one, for the whole request."""

    code: int
    topic: str | None = None
    partition: int | None = None


def delete_offsets(host: str, port: int, group: str, places: Iterable[tuple[str, int]]) -> list[Refusal]:
    """Delete a group's committed offsets of some partitions; what was refused comes back."""
    topics = [
        OffsetDeleteRequestTopic(
            name=name, partitions=[OffsetDeleteRequestPartition(partition_index=number) for _, number in some]
        )
        for name, some in groupby(sorted(places), key=lambda where: where[0])
    ]
    request = OffsetDeleteRequest(group_id=group, topics=topics)
    header = encode_request_header(RequestHeader(API_KEY, VERSION, 1, "ottla-cli"))
    try:
        answer = memoryview(_ask(host, port, header + encode(request, VERSION)))
    except OSError as error:
        raise CommandError(f"the coordinator of group {group} at {host}:{port}: {error}") from None
    _, at = decode_response_header(answer, flexible=False)
    return list(_refusals(decode(OffsetDeleteResponse, VERSION, answer, at)))


def _refusals(response: OffsetDeleteResponse) -> Iterator[Refusal]:
    if response.error_code:
        yield Refusal(response.error_code)
    for topic in response.topics:
        for one in topic.partitions:
            if one.error_code:
                yield Refusal(one.error_code, topic.name, one.partition_index)


def _ask(host: str, port: int, payload: bytes) -> bytes:
    with socket.create_connection((host, port), REQUEST_S) as connection:
        connection.sendall(struct.pack(">i", len(payload)) + payload)
        (size,) = struct.unpack(">i", _read(connection, 4))
        if not 0 < size <= ANSWER_BYTES_MAX:
            raise OSError("this is no answer of a broker")
        return _read(connection, size)


def _read(connection: socket.socket, size: int) -> bytes:
    got = bytearray()
    while len(got) < size:
        some = connection.recv(size - len(got))
        if not some:
            raise OSError("the connection was closed before the answer came")
        got += some
    return bytes(got)
