"""A transactional producer of each client library, step by step, behind one small face.

confluent-kafka and aiokafka speak the transactional APIs as they were before KIP-890, aiokafka in their first
versions; Apache Kafka's own, in Java, speaks the newest (transactions V2).
"""

import asyncio
import contextlib
import itertools
import queue
import subprocess
import threading
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import aiokafka
import aiokafka.errors
import confluent_kafka
from bench.servers import clean_environment
from confluent_kafka import KafkaError, KafkaException
from tests.support.processes import die_with_parent
from tests.transactions.jvm import java

CALL_S = 30.0
FENCED = "fenced"


class Refused(Exception):  # noqa: N818
    """The client was told that it cannot do this; `reason` is FENCED or the library's name of the error."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class TransactionalProducer(ABC):
    """What every library can do. `flush` returns when all that was sent is acknowledged."""

    def __init__(self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self.bootstrap, self.transactional_id, self.timeout_ms = bootstrap, transactional_id, timeout_ms

    @abstractmethod
    def init(self) -> None: ...

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def send(self, topic: str, value: str, partition: int = 0) -> None: ...

    @abstractmethod
    def flush(self) -> None: ...

    @abstractmethod
    def send_offset(self, group: str, topic: str, partition: int, offset: int) -> None: ...

    @abstractmethod
    def commit(self) -> None: ...

    @abstractmethod
    def abort(self) -> None: ...

    @abstractmethod
    def close(self) -> None: ...

    def written(self, topic: str, *values: str) -> None:
        """These values are in the open transaction, and acknowledged."""
        for value in values:
            self.send(topic, value)
        self.flush()


class Confluent(TransactionalProducer):
    FENCING = (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)

    def __init__(
        self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000, **settings: Any
    ) -> None:
        super().__init__(bootstrap, transactional_id, timeout_ms)
        self._failed: list[KafkaError] = []
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "linger.ms": 0,
                "log_level": 0,
                "client.id": transactional_id,
                **{key.replace("_", "."): value for key, value in settings.items()},
            }
        )

    def init(self) -> None:
        self._tried(lambda: self._producer.init_transactions(CALL_S))

    def begin(self) -> None:
        self._tried(self._producer.begin_transaction)

    def send(self, topic: str, value: str, partition: int = 0) -> None:
        def delivered(error: KafkaError | None, _: object) -> None:
            if error is not None:
                self._failed.append(error)

        self._tried(lambda: self._producer.produce(topic, value, partition=partition, on_delivery=delivered))

    def flush(self) -> None:
        left: list[int] = []
        self._tried(lambda: left.append(self._producer.flush(CALL_S)))
        assert left == [0]
        if self._failed:
            raise self._refused(self._failed.pop())

    def send_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": group, "log_level": 0}
        )
        position = [confluent_kafka.TopicPartition(topic, partition, offset)]
        metadata = consumer.consumer_group_metadata()
        self._tried(lambda: self._producer.send_offsets_to_transaction(position, metadata, CALL_S))
        consumer.close()

    def commit(self) -> None:
        self._tried(lambda: self._producer.commit_transaction(CALL_S))

    def abort(self) -> None:
        self._tried(lambda: self._producer.abort_transaction(CALL_S))

    def close(self) -> None:
        """Without a goodbye: what is open stays open."""
        del self._producer

    def _tried(self, call: Callable[[], Any]) -> None:
        try:
            call()
        except KafkaException as error:
            raise self._refused(error.args[0]) from error
        except SystemError as error:  # it raises a fatal error in the midst of a delivery callback
            if not isinstance(error.__cause__, KafkaException):
                raise
            raise self._refused(error.__cause__.args[0]) from error

    def _refused(self, error: KafkaError) -> Refused:
        return Refused(FENCED if error.code() in self.FENCING else error.name())


class Aiokafka(TransactionalProducer):
    """On an event loop of its own, in a thread."""

    def __init__(
        self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000, **settings: Any
    ) -> None:
        super().__init__(bootstrap, transactional_id, timeout_ms)
        self._settings = settings
        self._sent: list[asyncio.Future[Any]] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._producer: aiokafka.AIOKafkaProducer = self._do(self._made())

    async def _made(self) -> aiokafka.AIOKafkaProducer:
        return aiokafka.AIOKafkaProducer(
            bootstrap_servers=self.bootstrap,
            transactional_id=self.transactional_id,
            client_id=self.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
            **self._settings,
        )

    def init(self) -> None:
        self._do(self._producer.start())

    def begin(self) -> None:
        self._do(self._producer.begin_transaction())

    def send(self, topic: str, value: str, partition: int = 0) -> None:
        self._sent.append(self._do(self._producer.send(topic, value.encode(), partition=partition)))

    def flush(self) -> None:
        async def acknowledged() -> None:
            await asyncio.gather(*self._sent)

        try:
            self._do(acknowledged())
        finally:
            self._sent.clear()

    def send_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        position = {aiokafka.TopicPartition(topic, partition): offset}
        self._do(self._producer.send_offsets_to_transaction(position, group))

    def commit(self) -> None:
        self._do(self._producer.commit_transaction())

    def abort(self) -> None:
        self._do(self._producer.abort_transaction())

    def close(self) -> None:
        """Without a goodbye: what is open stays open. Its tasks end with the loop."""

        async def end() -> None:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(self._producer.client.close(), 5)
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        self._producer._closed = True  # or it complains that nobody stopped it
        self._do(end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CALL_S)
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        try:
            return asyncio.run_coroutine_threadsafe(work, self._loop).result(CALL_S)
        except (aiokafka.errors.ProducerFenced, aiokafka.errors.InvalidProducerEpoch) as error:
            raise Refused(FENCED) from error
        except aiokafka.errors.KafkaError as error:
            raise Refused(type(error).__name__) from error


class JavaProducers:
    """The process that all producers of Apache Kafka live in: a JVM takes seconds to start."""

    def __init__(self, classes: Path) -> None:
        self._answers: dict[str, queue.SimpleQueue[str]] = defaultdict(queue.SimpleQueue)
        self._numbers = itertools.count(1)
        self._process = subprocess.Popen(
            java(classes, "Producers"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=clean_environment(),
            preexec_fn=die_with_parent,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def new_number(self) -> str:
        return str(next(self._numbers))

    def ask(self, *words: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()
        return self._answers[words[0]].get(timeout=2 * CALL_S)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join(CALL_S)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            number, _, answer = line.strip().partition(" ")
            self._answers[number].put(answer)


class Java(TransactionalProducer):
    """Apache Kafka's own."""

    process: JavaProducers  # set by a fixture
    FENCING = ("ProducerFencedException", "InvalidProducerEpochException")

    def __init__(
        self, bootstrap: str, transactional_id: str, timeout_ms: int = 60_000, **settings: Any
    ) -> None:
        super().__init__(bootstrap, transactional_id, timeout_ms)
        given = {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
            "client.id": transactional_id,
            "max.block.ms": int(CALL_S * 1000),
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
        self._number = self.process.new_number()
        self._do("new", *(f"{key}={value}" for key, value in given.items()))

    def init(self) -> None:
        self._do("init")

    def begin(self) -> None:
        self._do("begin")

    def send(self, topic: str, value: str, partition: int = 0) -> None:
        self._do("send", topic, str(partition), value)

    def flush(self) -> None:
        self._do("flush")

    def send_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        self._do("offset", group, topic, str(partition), str(offset))

    def commit(self) -> None:
        self._do("commit")

    def abort(self) -> None:
        self._do("abort")

    def close(self) -> None:
        """Without a goodbye: what is open stays open."""
        with contextlib.suppress(queue.Empty):
            self.process.ask(self._number, "close")

    def _do(self, *words: str) -> None:
        answer = self.process.ask(self._number, *words)
        if answer != "ok":
            raise Refused(FENCED if answer.partition(" ")[0] in self.FENCING else answer)


CLIENTS: dict[str, type[TransactionalProducer]] = {"confluent": Confluent, "aiokafka": Aiokafka, "java": Java}
