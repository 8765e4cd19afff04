"""A broker that answers what a test tells it to: for errors and moves that a healthy one does not show."""

import socket
import struct
import threading
from collections.abc import Callable
from typing import Any, Self

from tests.kafka_clients.wire_client import all_requests

from ottla.wire.codec import decode, encode
from ottla.wire.header import decode_request_header, response_header, response_is_flexible
from ottla.wire.messages import VERSIONS
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)


class Hangup(Exception):  # noqa: N818
    """A handler raises this to have the connection closed instead of an answer."""


class FakeBroker:
    """`handlers` by request class; each gets the request and its version. ApiVersions is there already."""

    def __init__(self, handlers: dict[type, Callable[[Any, int], Any]] | None = None) -> None:
        self.handlers: dict[type, Callable[[Any, int], Any]] = {ApiVersionsRequest: self._versions}
        self.handlers |= handlers or {}
        self.versions = dict(VERSIONS)
        self.asked: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.bootstrap = f"127.0.0.1:{self.port}"
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)
        for one in self._open:
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            try:
                while head := stream.read(4):
                    payload = memoryview(stream.read(struct.unpack(">i", head)[0]))
                    connection.sendall(self._answer(payload))
            except (Hangup, OSError, ValueError):
                return

    def _answer(self, payload: memoryview) -> bytes:
        header, at = decode_request_header(payload)
        key, version = header.api_key, header.api_version
        kind = next(one for one in all_requests() if key == one.API_KEY)  # type: ignore[attr-defined]
        self.asked.append(kind.__name__.removesuffix("Request"))
        response = self.handlers[kind](decode(kind, version, payload, at), version)
        if isinstance(response, bytes):
            return response
        body = encode(response, version)
        answer = response_header(header.correlation_id, response_is_flexible(key, version)) + body
        return struct.pack(">i", len(answer)) + answer

    def _versions(self, request: Any, version: int) -> ApiVersionsResponse:
        rows = [
            ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, (low, high) in self.versions.items()
        ]
        return ApiVersionsResponse(api_keys=rows)


def leads(topic: str, leader: int, brokers: dict[int, int], *, error: int = 0) -> Callable[[Any, int], Any]:
    """Metadata of a cluster (ports by broker) and a topic with one partition."""

    def answer(request: MetadataRequest, version: int) -> MetadataResponse:
        partition = MetadataResponsePartition(partition_index=0, leader_id=leader, leader_epoch=4)
        found = MetadataResponseTopic(name=topic, error_code=error, partitions=[] if error else [partition])
        nodes = [
            MetadataResponseBroker(node_id=node, host="127.0.0.1", port=port)
            for node, port in brokers.items()
        ]
        return MetadataResponse(brokers=nodes, controller_id=leader, topics=[found])

    return answer


def in_turn(*answers: Callable[[Any, int], Any]) -> Callable[[Any, int], Any]:
    """The first for the first request, and so on; the last for all that follow."""
    left = list(answers)

    def answer(request: Any, version: int) -> Any:
        return (left.pop(0) if len(left) > 1 else left[0])(request, version)

    return answer
