"""Members of consumer groups, each on a thread of its own, with the client libraries behind one small face.

A member polls all the time and notes what it was given, what was taken from it and what it read. Whatever
else a test wants of it (commit, seek, pause) is done between two polls, on its own thread, as an application
would.

The clients: `classic` and `modern` are confluent-kafka with group.protocol=classic and =consumer (KIP-848),
`aio` is aiokafka, `python` is kafka-python. `modern` has its heartbeats and sessions from the broker.
"""

import asyncio
import contextlib
import inspect
import queue
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import aiokafka
import aiokafka.errors
import confluent_kafka
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from tests.kafka_clients.harness import wait_for

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    import kafka
    import kafka.errors
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.structs import OffsetAndMetadata

Partition: TypeAlias = tuple[str, int]
Offsets: TypeAlias = Mapping[Partition, int]

COMMAND_S = 30.0
POLL_S = 0.05
HEARTBEAT_MS = 100
METADATA_MS = 200
OUT_OF_REACH = {
    confluent_kafka.KafkaError._TRANSPORT,
    confluent_kafka.KafkaError._TIMED_OUT,
    confluent_kafka.KafkaError._WAIT_COORD,
}


class Seen(NamedTuple):
    topic: str
    partition: int
    offset: int
    value: bytes


@dataclass(frozen=True)
class Wish:
    """What a member is to be. `pattern` is a regular expression instead of topics."""

    bootstrap: str
    group: str
    topics: tuple[str, ...] = ()
    pattern: str = ""
    instance: str | None = None
    cooperative: bool = False
    auto_commit: bool = False
    session_ms: int = 15_000
    extra: Mapping[str, Any] = field(default_factory=dict)


class CommitRefused(Exception):  # noqa: N818
    """A commit was refused; `code` is Kafka's, or the library's own (negative). It is retriable if the
    library says so, or could not reach the broker."""

    def __init__(self, code: int, is_retriable: bool) -> None:
        super().__init__(code)
        self.code, self.is_retriable = code, is_retriable

    @classmethod
    def of(cls, error: confluent_kafka.KafkaError) -> "CommitRefused":
        return cls(error.code(), error.retriable() or error.code() in OUT_OF_REACH)


class Member(ABC):
    """Closing it leaves the group, unless it is static."""

    def __init__(self, wish: Wish) -> None:
        self.wish = wish
        self.assigned: frozenset[Partition] = frozenset()
        self.rebalances: list[tuple[str, frozenset[Partition]]] = []
        self.received: list[Seen] = []
        self.async_commits: list[int] = []
        self.errors: list[int] = []
        self.failure: BaseException | None = None
        self._commands: queue.SimpleQueue[tuple[Callable[[Any], Any], Future[Any]]] = queue.SimpleQueue()
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._live, daemon=True)
        self._thread.start()

    def begin_to_close(self) -> None:
        self._is_closing.set()

    def close(self) -> None:
        self.begin_to_close()
        self._thread.join(COMMAND_S)
        assert not self._thread.is_alive(), "the member did not close"
        if self.failure is not None:
            raise self.failure

    def values(self) -> list[bytes]:
        return [one.value for one in self.received]

    def revoked(self) -> list[frozenset[Partition]]:
        return [partitions for what, partitions in self.rebalances if what != "assigned" and partitions]

    def do(self, command: Callable[[Any], Any]) -> Any:
        """Run it on the member's thread, between two polls."""
        done: Future[Any] = Future()
        self._commands.put((command, done))
        wait_for(lambda: done.done() or self.failure, COMMAND_S, "the member to do something")
        if not done.done() and self.failure:
            raise self.failure
        return done.result()

    def has_orders(self) -> bool:
        return not self._commands.empty()

    # What the libraries do differently.

    @abstractmethod
    def commit(self, offsets: Offsets) -> None: ...

    @abstractmethod
    def commit_async(self, offsets: Offsets) -> None:
        """Its outcome is added to `async_commits`: Kafka's code, 0 if it went well."""

    @abstractmethod
    def committed(self, partitions: Iterable[Partition]) -> dict[Partition, int | None]: ...

    @abstractmethod
    def seek(self, partition: Partition, offset: int) -> None: ...

    @abstractmethod
    def pause(self, partitions: Iterable[Partition]) -> None: ...

    @abstractmethod
    def resume(self, partitions: Iterable[Partition]) -> None: ...

    # Its life.

    def _live(self) -> None:
        try:
            self._run()
        except BaseException as error:  # noqa: BLE001
            self.failure = error

    @abstractmethod
    def _run(self) -> None: ...

    def _obey(self, consumer: Any) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                command, done = self._commands.get_nowait()
                try:
                    done.set_result(command(consumer))
                except Exception as error:  # noqa: BLE001
                    done.set_exception(error)

    def _on(self, what: str, partitions: Iterable[Any]) -> None:
        these = frozenset((one.topic, one.partition) for one in partitions)
        self.rebalances.append((what, these))
        self.assigned = self.assigned | these if what == "assigned" else self.assigned - these


class Classic(Member):
    """confluent-kafka."""

    def options(self) -> dict[str, Any]:
        wish = self.wish
        return {
            "session.timeout.ms": wish.session_ms,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "partition.assignment.strategy": "cooperative-sticky" if wish.cooperative else "range",
        }

    def _run(self) -> None:
        wish = self.wish
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": wish.bootstrap,
                "group.id": wish.group,
                **({"group.instance.id": wish.instance} if wish.instance else {}),
                "enable.auto.commit": wish.auto_commit,
                "auto.commit.interval.ms": 100,
                "auto.offset.reset": "earliest",
                "topic.metadata.refresh.interval.ms": METADATA_MS,
                "fetch.wait.max.ms": 50,
                "fetch.error.backoff.ms": 10,
                "coordinator.query.interval.ms": 500,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
                "error_cb": lambda error: self.errors.append(error.code()),
                "on_commit": lambda error, _: self.async_commits.append(error.code() if error else 0),
                **self.options(),
                **wish.extra,
            }
        )
        try:
            consumer.subscribe(
                [wish.pattern] if wish.pattern else list(wish.topics),
                on_assign=lambda _, partitions: self._on("assigned", partitions),
                on_revoke=lambda _, partitions: self._on("revoked", partitions),
                on_lost=lambda _, partitions: self._on("lost", partitions),
            )
            while not self._is_closing.is_set():
                self._obey(consumer)
                for message in consumer.consume(100, POLL_S):
                    if message.error():
                        self.errors.append(message.error().code())
                    else:
                        self.received.append(
                            Seen(message.topic(), message.partition(), message.offset(), message.value())
                        )
        finally:
            consumer.close()

    def commit(self, offsets: Offsets) -> None:
        wanted = _confluent(offsets)
        try:
            answers = self.do(lambda consumer: consumer.commit(offsets=wanted, asynchronous=False))
        except confluent_kafka.KafkaException as error:
            raise CommitRefused.of(error.args[0]) from error
        for answer in answers:
            if answer.error is not None:
                raise CommitRefused.of(answer.error)

    def commit_async(self, offsets: Offsets) -> None:
        wanted = _confluent(offsets)
        self.do(lambda consumer: consumer.commit(offsets=wanted, asynchronous=True))

    def committed(self, partitions: Iterable[Partition]) -> dict[Partition, int | None]:
        wanted = [confluent_kafka.TopicPartition(*one) for one in partitions]
        found = self.do(lambda consumer: consumer.committed(wanted, timeout=COMMAND_S))
        return {(one.topic, one.partition): None if one.offset < 0 else one.offset for one in found}

    def seek(self, partition: Partition, offset: int) -> None:
        self.do(lambda consumer: consumer.seek(confluent_kafka.TopicPartition(*partition, offset)))

    def pause(self, partitions: Iterable[Partition]) -> None:
        wanted = [confluent_kafka.TopicPartition(*one) for one in partitions]
        self.do(lambda consumer: consumer.pause(wanted))

    def resume(self, partitions: Iterable[Partition]) -> None:
        wanted = [confluent_kafka.TopicPartition(*one) for one in partitions]
        self.do(lambda consumer: consumer.resume(wanted))


def _confluent(offsets: Offsets) -> list[confluent_kafka.TopicPartition]:
    return [confluent_kafka.TopicPartition(*where, offset) for where, offset in offsets.items()]


class Modern(Classic):
    """confluent-kafka with the consumer protocol."""

    def options(self) -> dict[str, Any]:
        return {"group.protocol": "consumer"}


def _settings(wish: Wish) -> dict[str, Any]:
    """What kafka-python and aiokafka call by the same names."""
    return {
        "bootstrap_servers": wish.bootstrap,
        "group_id": wish.group,
        "group_instance_id": wish.instance,
        "enable_auto_commit": wish.auto_commit,
        "auto_commit_interval_ms": 100,
        "auto_offset_reset": "earliest",
        "session_timeout_ms": wish.session_ms,
        "heartbeat_interval_ms": HEARTBEAT_MS,
        "metadata_max_age_ms": METADATA_MS,
        "fetch_max_wait_ms": 50,
        "retry_backoff_ms": 20,
    }


class PythonMember(Member):
    """What kafka-python and aiokafka have in common."""

    topic_partition: Any

    def committed(self, partitions: Iterable[Partition]) -> dict[Partition, int | None]:
        places = {partition: self.topic_partition(*partition) for partition in partitions}
        return {partition: self._committed(place) for partition, place in places.items()}

    def _committed(self, place: Any) -> int | None:
        offset: int | None = self.do(lambda consumer: consumer.committed(place))
        return offset

    def seek(self, partition: Partition, offset: int) -> None:
        self.do(lambda consumer: consumer.seek(self.topic_partition(*partition), offset))

    def pause(self, partitions: Iterable[Partition]) -> None:
        places = [self.topic_partition(*partition) for partition in partitions]
        self.do(lambda consumer: consumer.pause(*places))

    def resume(self, partitions: Iterable[Partition]) -> None:
        places = [self.topic_partition(*partition) for partition in partitions]
        self.do(lambda consumer: consumer.resume(*places))


class Python(PythonMember):
    """kafka-python."""

    topic_partition = kafka.TopicPartition

    def _run(self) -> None:
        wish = self.wish
        strategy = {
            "partition_assignment_strategy": [CooperativeStickyAssignor] if wish.cooperative else None
        }
        consumer = kafka.KafkaConsumer(
            **_settings(wish),
            reconnect_backoff_max_ms=200,
            **(strategy if wish.cooperative else {}),
            **wish.extra,
        )
        try:
            consumer.subscribe(wish.topics, pattern=wish.pattern or None, listener=_listener(self))
            while not self._is_closing.is_set():
                self._obey(consumer)
                for messages in consumer.poll(timeout_ms=int(POLL_S * 1000)).values():
                    self.received += [
                        Seen(one.topic, one.partition, one.offset, one.value) for one in messages
                    ]
        finally:
            consumer.close(autocommit=wish.auto_commit)

    def commit(self, offsets: Offsets) -> None:
        wanted = _kafka_python(offsets)
        try:
            self.do(lambda consumer: consumer.commit(wanted))
        except kafka.errors.KafkaError as error:
            raise CommitRefused(_code(error), error.retriable) from error

    def commit_async(self, offsets: Offsets) -> None:
        wanted = _kafka_python(offsets)

        def note(_offsets: Any, outcome: Any) -> None:
            self.async_commits.append(_code(outcome) if isinstance(outcome, BaseException) else 0)

        self.do(lambda consumer: consumer.commit_async(wanted, callback=note))


def _listener(member: Member) -> kafka.ConsumerRebalanceListener:
    class Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            member._on("assigned", assigned)

        def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            member._on("revoked", revoked)

        def on_partitions_lost(self, lost: Iterable[Any]) -> None:
            member._on("lost", lost)

    return Listener()


def _kafka_python(offsets: Offsets) -> dict[Any, Any]:
    return {kafka.TopicPartition(*at): OffsetAndMetadata(offset, "", -1) for at, offset in offsets.items()}


def _code(error: BaseException) -> int:
    """kafka-python wraps what the broker said in an error of its own."""
    if isinstance(error, kafka.errors.CommitFailedError):
        return -1
    return int(getattr(error, "errno", -1) or -1)


class Aio(PythonMember):
    """aiokafka."""

    topic_partition = aiokafka.TopicPartition

    def _run(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        wish = self.wish
        member = self

        class Listener(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]
            async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
                member._on("revoked", revoked)

            async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
                member._on("assigned", assigned)

        consumer = aiokafka.AIOKafkaConsumer(
            **_settings(wish),
            partition_assignment_strategy=(RangePartitionAssignor, RoundRobinPartitionAssignor),
            **wish.extra,
        )
        consumer.subscribe(wish.topics, pattern=wish.pattern or None, listener=Listener())
        await consumer.start()
        try:
            while not self._is_closing.is_set():
                await self._obey_async(consumer)
                found = await consumer.getmany(timeout_ms=int(POLL_S * 1000))
                for messages in found.values():
                    self.received += [
                        Seen(one.topic, one.partition, one.offset, one.value) for one in messages
                    ]
        finally:
            await consumer.stop()

    async def _obey_async(self, consumer: Any) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                command, done = self._commands.get_nowait()
                try:
                    answer = command(consumer)
                    done.set_result(await answer if inspect.isawaitable(answer) else answer)
                except Exception as error:  # noqa: BLE001
                    done.set_exception(error)

    def commit(self, offsets: Offsets) -> None:
        wanted = {aiokafka.TopicPartition(*where): offset for where, offset in offsets.items()}
        try:
            self.do(lambda consumer: consumer.commit(wanted))
        except aiokafka.errors.KafkaError as error:
            raise CommitRefused(-1, error.retriable) from error

    def commit_async(self, offsets: Offsets) -> None:
        wanted = {aiokafka.TopicPartition(*where): offset for where, offset in offsets.items()}
        tasks: set[asyncio.Task[None]] = set()

        async def commit(work: Awaitable[None]) -> None:
            await work
            self.async_commits.append(0)

        def begin(consumer: Any) -> None:
            task = asyncio.get_running_loop().create_task(commit(consumer.commit(wanted)))
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        self.do(begin)


CLIENTS: dict[str, type[Member]] = {"classic": Classic, "modern": Modern, "aio": Aio, "python": Python}
