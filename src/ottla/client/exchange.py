"""One request for every leader that is concerned, until every partition has its answer.

The requests of a round are all sent before the first answer is awaited, so that the leaders work at the
same time. Partitions that were answered are done, also when others of the round have to be asked again.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack
from typing import Any, Generic, NamedTuple, TypeVar

from ottla.base.ids import TopicPartition
from ottla.client.cluster import Cluster
from ottla.client.connection import Connection
from ottla.client.errors import Again, ClientError, check
from ottla.client.retry import Deadline, until
from ottla.wire.primitives import ProtocolError

R = TypeVar("R")
T = TypeVar("T")


class Answer(NamedTuple, Generic[T]):
    """What was said of one partition: an error code, or none and a value."""

    topic_partition: TopicPartition
    error_code: int
    value: T
    said: str | None = None
    blamed: tuple[int, ...] = ()  # the records of a batch that are wrong, by their places in it


class Exchange(Generic[R, T]):
    """`requests` gives the requests to one leader for some partitions, `answers` takes a response apart."""

    def __init__(
        self,
        what: str,
        response: type[R],
        requests: Callable[[list[TopicPartition]], Iterable[Any]],
        answers: Callable[[R], Iterator[Answer[T]]],
        *,
        silent: T | None = None,
        refusals: dict[TopicPartition, ClientError] | None = None,
    ) -> None:
        """`silent`: the leaders answer nothing, and this is the value of what was sent. `refusals` takes the
        errors of partitions that are refused for good or given up; without it, the first is raised."""
        self._what = what
        self._response = response
        self._requests = requests
        self._answers = answers
        self._silent = silent
        self._refusals = refusals
        self._times_sent: Counter[TopicPartition] = Counter()
        self.done: dict[TopicPartition, T] = {}

    def run(
        self, cluster: Cluster, topic_partitions: Collection[TopicPartition], deadline: Deadline
    ) -> dict[TopicPartition, T]:
        """The value of every partition, in their order."""
        left = list(dict.fromkeys(topic_partitions))
        fresh = all(topic_partition in cluster.leaders for topic_partition in left)

        def attempt() -> None:
            nonlocal fresh
            waiting = self._undecided(left)
            if not fresh:
                cluster.refresh({topic_partition.topic for topic_partition in waiting}, deadline)
            fresh = False
            self._round(cluster, waiting, deadline)

        try:
            until(deadline, self._what, attempt)
        except ClientError as error:
            if self._refusals is None:
                raise
            self._refusals |= dict.fromkeys(self._undecided(left), error)
        return {
            topic_partition: self.done[topic_partition]
            for topic_partition in left
            if topic_partition in self.done
        }

    def _undecided(self, topic_partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        refused = self._refusals or {}
        return [
            topic_partition
            for topic_partition in topic_partitions
            if topic_partition not in self.done and topic_partition not in refused
        ]

    def _round(self, cluster: Cluster, waiting: list[TopicPartition], deadline: Deadline) -> None:
        failures: list[Exception] = []
        by_node: dict[int, list[TopicPartition]] = {}
        for topic_partition in waiting:
            try:
                by_node.setdefault(cluster.leader_of(topic_partition).node, []).append(topic_partition)
            except Again as error:
                failures.append(error)
        with ExitStack() as stack:
            asked = []
            for node, topic_partitions in by_node.items():
                try:
                    connection = cluster.take(cluster.address_of(node), deadline)
                    stack.callback(cluster.give_back, connection)  # which closes one that still owes
                    self._times_sent.update(topic_partitions)
                    for request in self._requests(topic_partitions):
                        connection.send(request, self._response, deadline, answered=self._silent is None)
                    asked.append(connection)
                    if self._silent is not None:
                        self.done.update(dict.fromkeys(topic_partitions, self._silent))
                except (OSError, ProtocolError, Again) as error:
                    failures.append(error)
            for connection in asked:
                try:
                    self._collect(connection, deadline, failures)
                except (OSError, ProtocolError) as error:
                    connection.close()
                    failures.append(error)
        missing = self._undecided(waiting)
        if missing and not failures:
            failures.append(Again(f"{missing[0]} is not in the answer"))
        if failures:
            raise failures[0]

    def _collect(self, connection: Connection, deadline: Deadline, failures: list[Exception]) -> None:
        while connection.in_flight:
            for answer in self._answers(connection.receive(self._response, deadline)):
                try:
                    check(answer.error_code, f"{self._what} {answer.topic_partition}", answer.said)
                except Again as error:
                    failures.append(error)
                except ClientError as error:
                    if self._refusals is None:
                        raise
                    error.blamed = answer.blamed
                    error.times_sent = self._times_sent[answer.topic_partition]
                    self._refusals[answer.topic_partition] = error
                else:
                    self.done[answer.topic_partition] = answer.value


def by_topic(topic_partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Requests name a topic once, with all its partitions."""
    topics: dict[str, list[int]] = {}
    for topic, partition in topic_partitions:
        topics.setdefault(topic, []).append(partition)
    return topics
