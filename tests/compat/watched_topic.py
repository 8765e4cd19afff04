"""What a topic has, as librdkafka reads it beside the program that is tried: the judge of a row."""

import threading
import uuid
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError, Producer
from tests.support.waiting import wait_for

from ottla.client import Client

QUIET = {"log_level": 0}
DEADLINE_S = 60.0


def produce(
    bootstrap: str,
    topic: str,
    values: Iterable[str],
    keys: Iterable[str] | None = None,
    timestamps: Iterable[int] | None = None,
) -> None:
    """All of them are acknowledged, or it fails."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5, **QUIET})
    errors: list[Any] = []

    def report(error: Any, _message: Any) -> None:
        if error is not None:
            errors.append(error)

    listed = list(values)
    nothing = [None] * len(listed)
    for value, key, timestamp in zip(listed, keys or nothing, timestamps or nothing, strict=True):
        when = {} if timestamp is None else {"timestamp": timestamp}
        producer.produce(topic, value.encode(), key, on_delivery=report, **when)
    assert producer.flush(DEADLINE_S) == 0
    assert errors == []


def committed(bootstrap: str, group: str, topic: str) -> int:
    """The sum over its partitions; -1 if there is nothing."""
    with Client(bootstrap) as client:
        offsets = client.committed(group).items()
    return sum(offset for partition, offset in offsets if partition.topic == topic) if offsets else -1


class WatchedTopic:
    """Everything in a topic from its beginning and as it arrives, without what was aborted."""

    def __init__(self, bootstrap: str, topic: str, **settings: object) -> None:
        self.messages: list[Any] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"judge-{uuid.uuid4()}",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "topic.metadata.refresh.interval.ms": 1_000,
                **QUIET,
                **settings,
            }
        )
        self._consumer.subscribe([topic])
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    @property
    def keys(self) -> list[str]:
        return [(message.key() or b"").decode() for message in self.messages]

    @property
    def values(self) -> list[str]:
        return [(message.value() or b"").decode() for message in self.messages]

    def _read(self) -> None:
        while not self._ended.is_set():
            for message in self._consumer.consume(1_000, 0.2):
                error = message.error()
                if error is None:
                    self.messages.append(message)
                elif error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART and not error.retriable():
                    raise AssertionError(str(error))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join(DEADLINE_S)
        self._consumer.close()


def read_all(bootstrap: str, topic: str, group: str, count: int) -> None:
    """As a member of a group that commits."""
    settings = {"group.id": group, "enable.auto.commit": True, "auto.commit.interval.ms": 500}
    with WatchedTopic(bootstrap, topic, **settings):
        wait_for(lambda: committed(bootstrap, group, topic) == count, DEADLINE_S, f"{group} at {count}")
