"""What is done to a cluster, or to a broker alone, for as long as the soak lasts.

writers    numbered records to `events`, which retention deletes; each ends after a cycle, and a new one comes
readers    a group of two that reads `events`; the ledger hears of everything
table      a key's newest number, in `table`, which is compacted
visitors   one after the other: a topic of its own, records in a transaction, a group of either protocol that
           reads and commits them; then all of it is deleted
"""

import contextlib
import itertools
import threading
import time
from collections.abc import Callable
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from tests.kafka_clients.wire_client import Closed, Wire
from tests.soak.ledger import Ledger, Place
from tests.support.waiting import wait_for

from ottla.base.errors import ErrorCode
from ottla.client.librdkafka.partition_offsets import watermarks
from ottla.wire.messages.delete_groups import DeleteGroupsRequest

EVENTS, TABLE, PARTITIONS = "events", "table", 3
KEYS = 500
VISIT_RECORDS = 10
PATIENT_S = 300.0  # a restart takes a while, and a visit may meet two of them
CLIENT = {
    "log_level": 0, "socket.timeout.ms": 5_000, "reconnect.backoff.max.ms": 500,
    "topic.metadata.refresh.interval.ms": 2_000,
}  # fmt: skip
SENDING = {
    "acks": "all", "enable.idempotence": True, "linger.ms": 20, "delivery.timeout.ms": 300_000,
    "retry.backoff.ms": 50, "retry.backoff.max.ms": 200,
}  # fmt: skip
READING = {"enable.auto.commit": False, "auto.offset.reset": "earliest", "fetch.wait.max.ms": 500}


class Traffic:
    """`with Traffic(...) as traffic:`, then `finish`, which gives a sentence for all that is wrong."""

    def __init__(self, name: str, bootstrap: str, replicas: int, rate: float, cycle_s: float) -> None:
        self.name, self.visits, self.failed_visits = name, 0, 0
        self._retention_ms = int(cycle_s * 1000)
        self.ledger = Ledger(self._retention_ms)
        self.cycles = 0  # how often retention has deleted all that was there when it last had
        self._client: dict[str, Any] = {"bootstrap.servers": bootstrap, **CLIENT}
        self._replicas, self._rate, self._cycle_s = replicas, rate, cycle_s
        self._table: dict[str, int] = {}
        self._left_over: list[tuple[str, str]] = []  # kind and name of what could not be deleted yet
        self._failures: list[str] = []
        self._is_over, self._is_read = threading.Event(), threading.Event()
        self._writing = [self._thread(self._write), self._thread(self._keep_table), self._thread(self._visit)]
        self._reading = [self._thread(self._read) for _ in range(2)]
        self._admin = AdminClient(self._client)
        self._watcher = self._thread(self._watch_retention)

    def _thread(self, work: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                work()
            except (KafkaException, AssertionError, BufferError) as error:
                self._failures.append(f"{work.__name__} ended: {error}")

        return threading.Thread(target=run, daemon=True)

    def __enter__(self) -> Self:
        segment_ms = max(self._retention_ms // 4, 1_000)
        deleted = {"retention.ms": self._retention_ms, "segment.ms": segment_ms}
        compacted = {
            "cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.1,
            "segment.ms": segment_ms,
        }  # fmt: skip
        self._create(EVENTS, PARTITIONS, deleted)
        self._create(TABLE, 1, compacted)
        for thread in (*self._writing, *self._reading, self._watcher):
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._writing:
            thread.join(2 * PATIENT_S)

    def finish(self) -> list[str]:
        """After the block: read what is left, then close the books."""
        with contextlib.suppress(AssertionError):  # the ledger says it better
            wait_for(lambda: self.ledger.is_settled, PATIENT_S)
        self._is_read.set()
        for thread in (*self._reading, self._watcher):
            thread.join(PATIENT_S)
        wrong = [*self._failures, *self.ledger.close(), *self._check_table()]
        return [f"{self.name}: {line}" for line in wrong]

    def _create(self, topic: str, partitions: int, config: dict[str, Any]) -> None:
        new = NewTopic(topic, partitions, self._replicas, config={key: str(config[key]) for key in config})

        def is_created() -> bool:
            try:
                self._admin.create_topics([new], operation_timeout=20)[topic].result(30)
            except KafkaException as error:
                return bool(error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS)
            return True

        wait_for(is_created, PATIENT_S, f"{topic} is created")

    # -- writers --

    def _write(self) -> None:
        for generation in itertools.count():
            writer = f"w{generation}"
            self._write_as(writer)
            if self._is_over.is_set():
                return

    def _write_as(self, writer: str) -> None:
        """For one cycle, or to the end."""
        producer = Producer({**self._client, **SENDING})

        def delivered(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                self.ledger.on_refused(message.value().decode(), str(error))
            else:
                self.ledger.on_acknowledged(*_told(message), message.timestamp()[1], _now_ms())

        began = time.monotonic()
        numbers = itertools.count()
        while not self._is_over.is_set() and time.monotonic() < began + self._cycle_s:
            number = next(numbers)
            _wait_until(began + number / self._rate, producer)
            producer.produce(
                EVENTS, f"{writer}:{number}", partition=number % PARTITIONS, on_delivery=delivered
            )
        assert not producer.flush(PATIENT_S), f"not all of {writer} was acknowledged in {PATIENT_S:.0f} s"

    def _keep_table(self) -> None:
        producer = Producer({**self._client, **SENDING})

        def delivered(error: KafkaError | None, message: Any) -> None:
            if error is None:
                self._table[message.key().decode()] = int(message.value())
            else:
                self._failures.append(f"key {message.key()} was refused: {error}")

        began = time.monotonic()
        for number in itertools.count():
            _wait_until(began + number / self._rate, producer)
            if self._is_over.is_set():
                break
            # Scattered, so that every round of compaction meets most keys.
            producer.produce(TABLE, str(number), str(number * 7919 % KEYS), on_delivery=delivered)
        assert not producer.flush(PATIENT_S), f"not all of {TABLE} was acknowledged in {PATIENT_S:.0f} s"

    def _check_table(self) -> list[str]:
        consumer = Consumer({**self._client, **READING, "group.id": "nobody"})
        newest: dict[str, int] = {}
        try:
            start, end = watermarks(consumer, TABLE, 0)
            consumer.assign([TopicPartition(TABLE, 0, start)])
            deadline = time.monotonic() + PATIENT_S
            while (position := consumer.position([TopicPartition(TABLE, 0)])[0].offset) < end:
                if time.monotonic() > deadline:
                    return [f"{TABLE} was read to {position} of {end} in {PATIENT_S:.0f} s"]
                for key, value in _pairs(consumer.consume(500, 0.5)):
                    newest[key] = int(value)
        finally:
            consumer.close()
        wanted = sorted(self._table.items())
        return [
            f"{TABLE} has {newest.get(key)} for {key}, not {number}"
            for key, number in wanted
            if newest.get(key) != number
        ]

    # -- readers --

    def _read(self) -> None:
        consumer = Consumer({**self._client, **READING, "group.id": "readers"})
        consumer.subscribe([EVENTS])
        commit_at = time.monotonic() + 1
        try:
            while not self._is_read.is_set():
                for message in consumer.consume(500, 0.5):
                    if message.error() is None:
                        self.ledger.on_read(*_told(message))
                if time.monotonic() > commit_at:
                    if consumer.assignment():
                        consumer.commit(asynchronous=True)
                    commit_at = time.monotonic() + 1
        finally:
            consumer.close()

    def _watch_retention(self) -> None:
        """A cycle is over when everything is deleted that was there when the one before was over."""
        consumer = Consumer({**self._client, "group.id": "nobody"})
        goal = 1
        try:
            while not self._is_read.wait(min(1.0, self._cycle_s / 10)):
                for partition in range(PARTITIONS):
                    with contextlib.suppress(KafkaException):
                        place = TopicPartition(EVENTS, partition)
                        start, end = consumer.get_watermark_offsets(place, timeout=5)
                        self.ledger.on_deleted(partition, start, _now_ms())
                        if partition == 0 and start >= goal:
                            self.cycles, goal = self.cycles + 1, max(end, start + 1)
        finally:
            consumer.close()

    # -- visitors --

    def _visit(self) -> None:
        for number in itertools.count():
            if self._is_over.wait(0.5):
                return
            try:
                self._be_visitor(number)
                self.visits += 1
            except KafkaException:  # a broker is being restarted
                self.failed_visits += 1
            self._clean_up()

    def _be_visitor(self, number: int) -> None:
        name = f"visit-{number}"
        self._left_over += [("topic", name), ("group", name)]
        self._create(name, 1, {})
        producer = Producer({**self._client, "transactional.id": f"visitor-{number % 3}", "linger.ms": 5})
        producer.init_transactions(PATIENT_S)
        producer.begin_transaction()
        for record in range(VISIT_RECORDS):
            producer.produce(name, str(record))
        producer.commit_transaction(PATIENT_S)
        protocol = ("classic", "consumer")[number % 2]
        consumer = Consumer({**self._client, **READING, "group.id": name, "group.protocol": protocol})
        read: list[str] = []
        try:
            consumer.subscribe([name])
            deadline = time.monotonic() + PATIENT_S
            while len(read) < VISIT_RECORDS and time.monotonic() < deadline:
                messages = consumer.consume(VISIT_RECORDS, 0.5)
                read += [_told(message)[1] for message in messages if message.error() is None]
            consumer.commit(asynchronous=False)
        finally:
            consumer.close()
        if read != [str(record) for record in range(VISIT_RECORDS)]:
            self._failures.append(f"{name} wrote {VISIT_RECORDS} records in a transaction and read {read}")

    def _clean_up(self) -> None:
        """What cannot be deleted now is deleted after a later visit."""
        for kind, name in list(self._left_over):
            if self._is_topic_gone(name) if kind == "topic" else self._is_group_gone(name):
                self._left_over.remove((kind, name))

    def _is_topic_gone(self, name: str) -> bool:
        try:
            self._admin.delete_topics([name], operation_timeout=10)[name].result(20)
        except KafkaException as error:
            return bool(error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART)
        return True

    def _is_group_gone(self, name: str) -> bool:
        """Asked of one broker after the other, over a socket: librdkafka 2.16 aborts the process where the
        coordinator of a group to be deleted is away (rd_kafka_enq_once_del_source_return)."""
        for address in self._client["bootstrap.servers"].split(","):
            with contextlib.suppress(OSError, Closed), Wire(int(address.rsplit(":", 1)[1]), 10.0) as wire:
                answer = wire.call(DeleteGroupsRequest(groups_names=[name]), DeleteGroupsRequest.VERSIONS[1])
                if answer.results[0].error_code in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
                    return True
        return False


def _pairs(messages: list[Any]) -> list[tuple[str, str]]:
    return [(each.key().decode(), each.value().decode()) for each in messages if each.error() is None]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _told(message: Any) -> tuple[Place, str]:
    return (message.partition(), message.offset()), message.value().decode()


def _wait_until(when: float, producer: Producer) -> None:
    while (rest := when - time.monotonic()) > 0:
        producer.poll(min(rest, 0.1))
    producer.poll(0)
