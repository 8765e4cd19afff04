"""Requests that confluent-kafka does not have, through our own client.

`Cluster` asks any broker, a certain one, or the controller for what only the controller does. Each question
has a client of its own, unless there is a `BrokerPool` for those who ask again and again. `connected` is for
commands that ask many brokers many things.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from ottla.base.command_error import CommandError
from ottla.base.errors import ErrorCode
from ottla.client.cluster import Cluster as Brokers
from ottla.client.connection import Connection
from ottla.client.errors import Again, ClientError
from ottla.client.librdkafka.connections import CLIENT_ID, check, probe
from ottla.client.librdkafka.errors import REQUEST_S
from ottla.client.properties import ClientProperties, Where
from ottla.client.retry import Deadline, until
from ottla.client.topics import controller
from ottla.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse

R = TypeVar("R")
IDLE_MAX = 4
Connect = Callable[[Brokers, Deadline], AbstractContextManager[Connection]]


@contextmanager
def connected(where: Where) -> Iterator[Brokers]:
    """A client that knows the brokers, while a command runs; what it is refused ends the command."""
    check(where)
    probe(where)
    bootstrap = ClientProperties.of(where).bootstrap
    deadline = Deadline(REQUEST_S)
    try:
        with brokers_of(where) as brokers:
            until(deadline, f"asking {bootstrap}", lambda: brokers.refresh([], deadline))
            yield brokers
    except ClientError as error:
        raise CommandError(str(error)) from None


def brokers_of(where: Where) -> closing[Brokers]:
    """A client that has not asked anybody yet."""
    return closing(_brokers(where))


def _brokers(where: Where) -> Brokers:
    properties = ClientProperties.of(where)
    return Brokers(properties.bootstrap, properties.client_id or CLIENT_ID, properties.security)


class BrokerPool:
    """Clients that wait to be used again, each by one thread at a time."""

    def __init__(self, where: Where) -> None:
        self._where = where
        self._idle: list[Brokers] = []
        self._is_closed = False
        self._lock = threading.Lock()

    @contextmanager
    def lent(self) -> Iterator[Brokers]:
        with self._lock:
            brokers = self._idle.pop() if self._idle else None
        brokers = brokers or _brokers(self._where)
        try:
            yield brokers
        finally:
            with self._lock:
                is_kept = len(self._idle) < IDLE_MAX and not self._is_closed
                if is_kept:
                    self._idle.append(brokers)
            if not is_kept:
                brokers.close()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for brokers in idle:
            brokers.close()


@dataclass(frozen=True)
class Cluster:
    where: Where
    pool: BrokerPool | None = None

    @classmethod
    def reached(cls, where: Where) -> "Cluster":
        """What is wrong with the settings or the address is said at once."""
        check(where)
        probe(where)
        return cls(where)

    def ask_any(self, request: Any, response: type[R]) -> R:
        return self._ask(request, response, Brokers.borrow_any)

    def ask_controller(self, request: Any, response: type[R]) -> R:
        """The controller may change at any time: ask again until one answers as such."""
        return self._ask(request, response, controller)

    def ask_broker(self, node: int, request: Any, response: type[R]) -> R:
        @contextmanager
        def connect(brokers: Brokers, deadline: Deadline) -> Iterator[Connection]:
            if node not in brokers.brokers:
                brokers.refresh([], deadline)
            with brokers.borrow(brokers.address_of(node), deadline) as connection:
                yield connection

        return self._ask(request, response, connect)

    def _ask(self, request: Any, response: type[R], connect: Connect) -> R:
        deadline = Deadline(REQUEST_S)

        def attempt() -> R:
            with connect(brokers, deadline) as connection:
                answer = connection.call(request, response, deadline)
            if getattr(answer, "error_code", ErrorCode.NONE) == ErrorCode.NOT_CONTROLLER:
                raise Again("the broker is not the controller any more", ErrorCode.NOT_CONTROLLER)
            return answer

        try:
            with self.lent() as brokers:
                asked = f"asking {ClientProperties.of(self.where).bootstrap}"
                return until(deadline, asked, attempt)
        except ClientError as error:
            raise CommandError(str(error)) from None

    def lent(self) -> AbstractContextManager[Brokers]:
        """A client for whoever asks many brokers many things; it knows nobody before its first `refresh`."""
        return self.pool.lent() if self.pool else brokers_of(self.where)

    def racks(self) -> dict[int, str | None]:
        """The brokers that are there, each with its rack."""
        answer = self.ask_any(MetadataRequest(topics=[]), MetadataResponse)
        return {broker.node_id: broker.rack for broker in answer.brokers}

    def topics(self, names: Iterable[str] = ()) -> list[DescribeTopicPartitionsResponseTopic]:
        """The topics with all their partitions, page by page; all topics if none is named."""
        topics: dict[str, DescribeTopicPartitionsResponseTopic] = {}
        request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name) for name in names])
        while True:
            answer = self.ask_any(request, DescribeTopicPartitionsResponse)
            for topic in answer.topics:
                first = topics.setdefault(topic.name or "", topic)
                if first is not topic:
                    first.partitions += topic.partitions
            following = answer.next_cursor
            if following is None:
                return list(topics.values())
            request.cursor = Cursor(
                topic_name=following.topic_name, partition_index=following.partition_index
            )
