"""Requests and answers one by one over a plain socket, for what no client library lets us see or send."""

import importlib
import pkgutil
import random
import socket
import struct
from functools import cache
from typing import Any, Self, TypeVar

from tests.support.frames import decode_answer, encode_request

from ottla.base.ids import ZERO_UUID
from ottla.records.batch import split
from ottla.records.builder import NewRecord, build_batch
from ottla.records.compression import Codec
from ottla.records.record import Record, read_records
from ottla.security.sasl.client import Credentials, client_exchange
from ottla.wire import messages
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest

R = TypeVar("R")

TIMEOUT_S = 30.0


@cache
def all_requests() -> tuple[type, ...]:
    """The request class of every API we have a message for."""
    modules = sorted(
        f"{messages.__name__}.{module.name}" for module in pkgutil.iter_modules(messages.__path__)
    )
    values = [value for module in modules for value in vars(importlib.import_module(module)).values()]
    return tuple(
        value for value in values if hasattr(value, "API_KEY") and value.__name__.endswith("Request")
    )


def frame_of(request: Any, version: int, correlation_id: int = 1, client_id: str | None = "wire") -> bytes:
    return framed(encode_request(request, version, correlation_id, client_id))


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


class Closed(Exception):  # noqa: N818
    """The broker closed the connection."""


class Wire:
    def __init__(self, port: int, timeout_s: float = TIMEOUT_S, host: str = "127.0.0.1") -> None:
        self.socket = socket.create_connection((host, port), timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._next = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def send_bytes(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            raise Closed from None

    def send(self, request: Any, version: int) -> int:
        """The correlation id to expect."""
        self._next += 1
        self.send_bytes(frame_of(request, version, self._next))
        return self._next

    def receive_frame(self) -> memoryview:
        (size,) = struct.unpack(">i", self._exactly(4))
        return memoryview(self._exactly(size))

    def wait_for_answer(self) -> None:
        """Until it has begun to arrive. It stays unread."""
        self.socket.recv(1, socket.MSG_PEEK)

    def receive(self, request: type, version: int) -> tuple[int, Any]:
        """Correlation id and response."""
        return decode_answer(request, version, self.receive_frame())

    def call(self, request: Any, version: int) -> Any:
        expected = self.send(request, version)
        correlation_id, response = self.receive(type(request), version)
        assert correlation_id == expected
        return response

    def _exactly(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            try:
                part = self.socket.recv(min(count - len(parts), 1 << 20))
            except ConnectionResetError:
                raise Closed from None
            if not part:
                raise Closed
            parts += part
        return bytes(parts)

    def is_closed_by_peer(self, timeout_s: float = TIMEOUT_S) -> bool:
        """Whether the broker closes without another byte."""
        self.socket.settimeout(timeout_s)
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False

    # -- produce and fetch -----------------------------------------------------------------------------------

    def produce(
        self, topic: str, records: bytes, *, partition: int = 0, acks: int = -1, version: int = 9
    ) -> PartitionProduceResponse:
        response: ProduceResponse = self.call(produce_request(topic, records, partition, acks), version)
        return response.responses[0].partition_responses[0]

    def fetch(self, topic: str, offset: int = 0, *, partition: int = 0, version: int = 11) -> list[Record]:
        response = self.call(fetch_request(topic, offset, partition), version)
        (answer,) = response.responses[0].partitions
        assert answer.error_code == 0
        return [record for _, batch in split(answer.records) for record in read_records(batch)]


def produce_request(topic: str, records: bytes, partition: int = 0, acks: int = -1) -> ProduceRequest:
    data = PartitionProduceData(index=partition, records=records)
    return ProduceRequest(
        acks=acks, timeout_ms=5000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
    )


def fetch_request(
    topic: str,
    offset: int = 0,
    partition: int = 0,
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    session: tuple[int, int] = (0, -1),
    topic_id: bytes = ZERO_UUID,
    partition_max_bytes: int = 1 << 20,
) -> FetchRequest:
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=partition_max_bytes)
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=50 << 20,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(topic=topic, topic_id=topic_id, partitions=[wanted])],
    )


def batch(
    *values: bytes, producer_id: int = -1, epoch: int = -1, sequence: int = -1, codec: Codec = Codec.NONE
) -> bytearray:
    return build_batch(
        [NewRecord(b"k", value, (), 1_700_000_000_000) for value in values],
        codec=codec,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


def logs_in(wire: Wire, mechanism: str, user: str, password: str) -> bool:
    """Authenticate on this connection. False: it is refused."""
    exchange = client_exchange(mechanism, Credentials(user, password), random.randbytes(32))
    wire.call(SaslHandshakeRequest(mechanism=mechanism), 1)
    token: bytes | None = exchange.first()
    while token is not None:
        answer = wire.call(SaslAuthenticateRequest(auth_bytes=token), 2)
        if answer.error_code:
            return False
        token = exchange.on_reply(answer.auth_bytes)
    return True
