"""Three client libraries behind one small face, so that one contract can be asked of each.

An adapter sends records and answers where they went, opens consumers on partitions (never on groups), and
turns a library's errors into `Refused` with Kafka's code. What is special to a library is tested in its file.
"""

import asyncio
import contextlib
import logging
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import aiokafka
import aiokafka.codec
import aiokafka.errors
import confluent_kafka

with warnings.catch_warnings():
    # kafka-python 3.0 reads its schemas with importlib.resources.read_text, deprecated in Python 3.11.
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    import kafka
    import kafka.codec
    import kafka.errors

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
DEADLINE_S = 40.0
UNLIMITED = 64 << 20

for noisy in ("kafka", "aiokafka"):
    logging.getLogger(noisy).setLevel(logging.CRITICAL)


class Sent(NamedTuple):
    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp_ms: int | None = None


class Placed(NamedTuple):
    partition: int
    offset: int


class Received(NamedTuple):
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    timestamp_ms: int
    timestamp_type: int

    @property
    def content(self) -> tuple[bytes | None, bytes | None, tuple[tuple[str, bytes], ...]]:
        return self.key, self.value, self.headers


class Refused(Exception):  # noqa: N818
    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


class Reader(Protocol):
    """A consumer on fixed partitions."""

    def poll(self, timeout_s: float) -> list[Received]: ...
    def seek(self, partition: int, offset: int) -> None: ...
    def ends(self, partition: int) -> tuple[int, int]: ...
    def offset_for_time(self, partition: int, timestamp_ms: int) -> int | None: ...


class Sending(NamedTuple):
    codec: str = "none"
    acks: str = "all"
    idempotent: bool = False
    partition: int | None = None


class Reading(NamedTuple):
    offset: int = 0
    max_wait_ms: int = 100
    min_bytes: int = 1
    partition_bytes: int = 1 << 20


class Client(ABC):
    name: str

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def missing_codec(self, _codec: str) -> str | None:
        return None

    def produce(self, topic: str, records: Sequence[Sent], **how: Any) -> list[Placed]:
        return self._produce(topic, records, Sending(**how))

    def reader(
        self, topic: str, partitions: Sequence[int] = (0,), **how: Any
    ) -> contextlib.AbstractContextManager[Reader]:
        return self._reader(topic, partitions, Reading(**how))

    @abstractmethod
    def _produce(self, topic: str, records: Sequence[Sent], how: Sending) -> list[Placed]: ...

    @abstractmethod
    def _reader(
        self, topic: str, partitions: Sequence[int], how: Reading
    ) -> contextlib.AbstractContextManager[Reader]: ...


def take(reader: Reader, count: int, deadline_s: float = DEADLINE_S) -> list[Received]:
    """The next `count` records, at least; AssertionError if they do not come."""
    taken: list[Received] = []
    end = time.monotonic() + deadline_s
    while len(taken) < count:
        assert time.monotonic() < end, f"{len(taken)} of {count} records came in {deadline_s} s"
        taken += reader.poll(0.2)
    return taken


def _received(one: Any) -> Received:
    """From a ConsumerRecord, which aiokafka and kafka-python have in common."""
    where = one.partition, one.offset
    return Received(*where, one.key, one.value, tuple(one.headers), one.timestamp, one.timestamp_type)


# -- confluent-kafka -----------------------------------------------------------------------------------------


class Confluent(Client):
    name = "confluent"

    def _produce(self, topic: str, records: Sequence[Sent], how: Sending) -> list[Placed]:
        options = {
            "bootstrap.servers": self.bootstrap,
            "compression.type": how.codec,
            "acks": how.acks,
            "enable.idempotence": how.idempotent,
            "linger.ms": 5,
            "message.max.bytes": UNLIMITED,
            "message.timeout.ms": int(DEADLINE_S * 1000),
        }
        producer = confluent_kafka.Producer(options)
        reports: dict[int, Any] = {}
        for number, record in enumerate(records):

            def report(error: Any, message: Any, number: int = number) -> None:
                reports[number] = error or Placed(message.partition(), message.offset())

            extra: dict[str, Any] = {} if record.timestamp_ms is None else {"timestamp": record.timestamp_ms}
            if how.partition is not None:
                extra["partition"] = how.partition
            producer.produce(
                topic, record.value, record.key, headers=list(record.headers), on_delivery=report, **extra
            )
        assert producer.flush(DEADLINE_S) == 0
        for answer in reports.values():
            if not isinstance(answer, Placed):
                raise Refused(answer.code(), answer.str())
        return [reports[number] for number in range(len(records))]

    @contextlib.contextmanager
    def _reader(self, topic: str, partitions: Sequence[int], how: Reading) -> Iterator[Reader]:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "unused",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": how.max_wait_ms,
                "fetch.min.bytes": how.min_bytes,
                "max.partition.fetch.bytes": how.partition_bytes,
            }
        )
        consumer.assign([confluent_kafka.TopicPartition(topic, one, how.offset) for one in partitions])
        try:
            yield _ConfluentReader(consumer, topic)
        finally:
            consumer.close()


class _ConfluentReader:
    def __init__(self, consumer: confluent_kafka.Consumer, topic: str) -> None:
        self._consumer, self._topic = consumer, topic

    def poll(self, timeout_s: float) -> list[Received]:
        messages = self._consumer.consume(1000, timeout_s) if timeout_s else self._consumer.consume(1000, 0)
        for message in messages:
            if message.error():
                raise Refused(message.error().code(), message.error().str())
        return [self._received(message) for message in messages]

    @staticmethod
    def _received(message: Any) -> Received:
        kind, timestamp_ms = message.timestamp()
        headers = tuple((name, value) for name, value in message.headers() or [])
        log_append = int(kind == confluent_kafka.TIMESTAMP_LOG_APPEND_TIME)
        return Received(
            message.partition(),
            message.offset(),
            message.key(),
            message.value(),
            headers,
            timestamp_ms,
            log_append,
        )

    def seek(self, partition: int, offset: int) -> None:
        self._consumer.seek(confluent_kafka.TopicPartition(self._topic, partition, offset))

    def ends(self, partition: int) -> tuple[int, int]:
        found: tuple[int, int] = self._consumer.get_watermark_offsets(
            confluent_kafka.TopicPartition(self._topic, partition), timeout=DEADLINE_S
        )
        return found

    def offset_for_time(self, partition: int, timestamp_ms: int) -> int | None:
        asked = confluent_kafka.TopicPartition(self._topic, partition, timestamp_ms)
        (found,) = self._consumer.offsets_for_times([asked], timeout=DEADLINE_S)
        return None if found.offset < 0 else found.offset


# -- aiokafka ------------------------------------------------------------------------------------------------


class AioKafka(Client):
    name = "aiokafka"

    def missing_codec(self, codec: str) -> str | None:
        has = {
            "snappy": aiokafka.codec.has_snappy,
            "lz4": aiokafka.codec.has_lz4,
            "zstd": aiokafka.codec.has_zstd,
        }
        return None if codec not in has or has[codec]() else f"aiokafka has no library for {codec}"

    def _produce(self, topic: str, records: Sequence[Sent], how: Sending) -> list[Placed]:
        async def run() -> list[Placed]:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=self.bootstrap,
                compression_type=None if how.codec == "none" else how.codec,
                acks=how.acks if how.acks == "all" else int(how.acks),
                enable_idempotence=how.idempotent,
                linger_ms=5,
                max_request_size=UNLIMITED,
                max_batch_size=UNLIMITED,
            )
            async with producer:
                futures = [
                    await producer.send(
                        topic,
                        record.value,
                        record.key,
                        how.partition,
                        record.timestamp_ms,
                        list(record.headers),
                    )
                    for record in records
                ]
                done = await asyncio.wait_for(asyncio.gather(*futures), DEADLINE_S)
                return [Placed(one.partition, one.offset) if one else Placed(-1, -1) for one in done]

        try:
            return asyncio.run(run())
        except aiokafka.errors.KafkaError as error:
            raise Refused(getattr(error, "errno", -1), repr(error)) from None

    @contextlib.contextmanager
    def _reader(self, topic: str, partitions: Sequence[int], how: Reading) -> Iterator[Reader]:
        with asyncio.Runner() as runner:

            async def open_consumer() -> aiokafka.AIOKafkaConsumer:
                made = aiokafka.AIOKafkaConsumer(
                    bootstrap_servers=self.bootstrap,
                    enable_auto_commit=False,
                    auto_offset_reset="earliest",
                    fetch_max_wait_ms=how.max_wait_ms,
                    fetch_min_bytes=how.min_bytes,
                    max_partition_fetch_bytes=how.partition_bytes,
                )
                await made.start()
                wanted = [aiokafka.TopicPartition(topic, one) for one in partitions]
                made.assign(wanted)
                for one in wanted:
                    made.seek(one, how.offset)
                return made

            consumer = runner.run(open_consumer())
            try:
                yield _AioReader(runner, consumer, topic)
            finally:
                runner.run(consumer.stop())


class _AioReader:
    def __init__(self, runner: asyncio.Runner, consumer: aiokafka.AIOKafkaConsumer, topic: str) -> None:
        self._runner, self._consumer, self._topic = runner, consumer, topic

    def poll(self, timeout_s: float) -> list[Received]:
        return self._runner.run(self._poll(timeout_s))

    async def _poll(self, timeout_s: float) -> list[Received]:
        try:
            found = await self._consumer.getmany(timeout_ms=int(timeout_s * 1000))
        except aiokafka.errors.KafkaError as error:
            raise Refused(getattr(error, "errno", -1), repr(error)) from None
        return [_received(one) for records in found.values() for one in records]

    def seek(self, partition: int, offset: int) -> None:
        async def run() -> None:
            self._consumer.seek(aiokafka.TopicPartition(self._topic, partition), offset)

        self._runner.run(run())

    def ends(self, partition: int) -> tuple[int, int]:
        async def run() -> tuple[int, int]:
            where = aiokafka.TopicPartition(self._topic, partition)
            first = await self._consumer.beginning_offsets([where])
            last = await self._consumer.end_offsets([where])
            return first[where], last[where]

        return self._runner.run(run())

    def offset_for_time(self, partition: int, timestamp_ms: int) -> int | None:
        async def run() -> int | None:
            where = aiokafka.TopicPartition(self._topic, partition)
            found = (await self._consumer.offsets_for_times({where: timestamp_ms}))[where]
            return None if found is None else int(found.offset)

        return self._runner.run(run())


# -- kafka-python --------------------------------------------------------------------------------------------


class KafkaPython(Client):
    name = "kafka-python"

    def missing_codec(self, codec: str) -> str | None:
        has = {"snappy": kafka.codec.has_snappy, "lz4": kafka.codec.has_lz4, "zstd": kafka.codec.has_zstd}
        return None if codec not in has or has[codec]() else f"kafka-python has no library for {codec}"

    def _produce(self, topic: str, records: Sequence[Sent], how: Sending) -> list[Placed]:
        producer = kafka.KafkaProducer(
            bootstrap_servers=self.bootstrap,
            compression_type=None if how.codec == "none" else how.codec,
            acks=how.acks if how.acks == "all" else int(how.acks),
            enable_idempotence=how.idempotent,
            linger_ms=5,
            max_request_size=UNLIMITED,
            batch_size=1 << 20,
            max_block_ms=DEADLINE_S * 1000,
        )
        try:
            futures = [
                producer.send(
                    topic,
                    record.value,
                    record.key,
                    headers=list(record.headers),
                    partition=how.partition,
                    timestamp_ms=record.timestamp_ms,
                )
                for record in records
            ]
            done = [future.get(DEADLINE_S) for future in futures]
            return [Placed(one.partition, one.offset) for one in done]
        except kafka.errors.KafkaError as error:
            raise Refused(getattr(error, "errno", -1), repr(error)) from None
        finally:
            producer.close()

    @contextlib.contextmanager
    def _reader(self, topic: str, partitions: Sequence[int], how: Reading) -> Iterator[Reader]:
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=self.bootstrap,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=how.max_wait_ms,
            fetch_min_bytes=how.min_bytes,
            max_partition_fetch_bytes=how.partition_bytes,
        )
        try:
            wanted = [kafka.TopicPartition(topic, one) for one in partitions]
            consumer.assign(wanted)
            for one in wanted:
                consumer.seek(one, how.offset)
            yield _KafkaPythonReader(consumer, topic)
        finally:
            consumer.close()


class _KafkaPythonReader:
    def __init__(self, consumer: kafka.KafkaConsumer, topic: str) -> None:
        self._consumer, self._topic = consumer, topic

    def poll(self, timeout_s: float) -> list[Received]:
        try:
            found = self._consumer.poll(timeout_ms=int(timeout_s * 1000))
        except kafka.errors.KafkaError as error:
            raise Refused(getattr(error, "errno", -1), repr(error)) from None
        return [_received(one) for records in found.values() for one in records]

    def seek(self, partition: int, offset: int) -> None:
        self._consumer.seek(kafka.TopicPartition(self._topic, partition), offset)

    def ends(self, partition: int) -> tuple[int, int]:
        where = kafka.TopicPartition(self._topic, partition)
        return self._consumer.beginning_offsets([where])[where], self._consumer.end_offsets([where])[where]

    def offset_for_time(self, partition: int, timestamp_ms: int) -> int | None:
        where = kafka.TopicPartition(self._topic, partition)
        found = self._consumer.offsets_for_times({where: timestamp_ms})[where]
        return None if found is None else int(found.offset)
