"""Requests that confluent-kafka does not have, over a plain socket: one connection for each.

`Cluster` knows the brokers from one of them, and finds the controller for what only the controller does.
"""

import socket
import struct
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from ottla.base.errors import ErrorCode
from ottla.cli.cluster import REQUEST_S
from ottla.cli.errors import CommandError
from ottla.wire.codec import decode, encode
from ottla.wire.header import (
    RequestHeader,
    decode_response_header,
    encode_request_header,
    response_is_flexible,
)
from ottla.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker

ANSWER_BYTES_MAX = 64 << 20
ATTEMPTS_MAX = 20
AGAIN_S = 0.5


def ask(host: str, port: int, request: Any, version: int | None = None) -> Any:
    """The decoded answer of one broker. OSError if there is none."""
    key = request.API_KEY
    version = request.VERSIONS[1] if version is None else version
    header = encode_request_header(RequestHeader(key, version, 1, "ottla-cli"))
    view = memoryview(_exchange(host, port, header + encode(request, version)))
    _, at = decode_response_header(view, response_is_flexible(key, version))
    name = type(request).__name__.removesuffix("Request") + "Response"
    return decode(getattr(import_module(type(request).__module__), name), version, view, at)


@dataclass
class Cluster:
    """`bootstrap` is a list of addresses as `--bootstrap` takes it."""

    bootstrap: str
    brokers: dict[int, MetadataResponseBroker] = field(default_factory=dict)
    controller_id: int = -1

    def refresh(self) -> None:
        answer: MetadataResponse = self.ask_any(MetadataRequest(topics=[]))
        self.brokers = {one.node_id: one for one in answer.brokers}
        self.controller_id = answer.controller_id

    def _addresses(self) -> Iterator[tuple[str, int]]:
        for address in self.bootstrap.split(","):
            host, _, port = address.strip().rpartition(":")
            yield host.strip("[]"), int(port)
        yield from ((one.host, one.port) for one in self.brokers.values())

    def ask_any(self, request: Any) -> Any:
        problem: OSError | None = None
        for host, port in self._addresses():
            try:
                return ask(host, port, request)
            except OSError as error:
                problem = problem or error
        raise CommandError(f"no broker answers at {self.bootstrap}: {problem}")

    def ask_controller(self, request: Any) -> Any:
        """The controller may change at any time: ask again until one answers as such."""
        problem = "the cluster has no controller"
        for attempt in range(ATTEMPTS_MAX):
            if attempt:
                time.sleep(AGAIN_S)
            if attempt or self.controller_id not in self.brokers:
                self.refresh()
            found = self.brokers.get(self.controller_id)
            if found is None:
                continue
            try:
                answer = ask(found.host, found.port, request)
            except OSError as error:
                problem = f"the controller, broker {self.controller_id}: {error}"
                continue
            if answer.error_code == ErrorCode.NOT_CONTROLLER:
                problem = f"broker {self.controller_id} is not the controller any more"
                continue
            return answer
        raise CommandError(problem)

    def topics(self, names: Iterable[str] = ()) -> list[DescribeTopicPartitionsResponseTopic]:
        """The topics with all their partitions, page by page; all topics if none is named."""
        found: dict[str, DescribeTopicPartitionsResponseTopic] = {}
        request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name) for name in names])
        while True:
            answer = self.ask_any(request)
            for topic in answer.topics:
                known = found.setdefault(topic.name, topic)
                if known is not topic:
                    known.partitions += topic.partitions
            following = answer.next_cursor
            if following is None:
                return list(found.values())
            request.cursor = Cursor(
                topic_name=following.topic_name, partition_index=following.partition_index
            )


def _exchange(host: str, port: int, payload: bytes) -> bytes:
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
