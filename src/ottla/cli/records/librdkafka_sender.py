"""Records through librdkafka: `ottla produce` in transactions, or with properties that only that has."""

import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, cast

from ottla.base.command_error import CommandError
from ottla.cli.records.deliveries import Deliveries
from ottla.client.formats import Outgoing
from ottla.client.librdkafka.errors import explain, is_dropped
from ottla.client.librdkafka.messages import flushed
from ottla.client.librdkafka.transactions import is_over

if TYPE_CHECKING:
    from confluent_kafka import Producer

DELIVERY_S = 30.0
QUEUE_FULL_S = 0.1


class LibrdkafkaSender:
    def __init__(
        self, client: "Producer", topic: str, deliveries: Deliveries, *, in_transaction: bool, limit: int
    ) -> None:
        """`limit`: what `message.max.bytes` is."""
        self._client = client
        self._topic = topic
        self._deliveries = deliveries
        self._in_transaction = in_transaction
        self._limit = limit

    def send(self, records: Iterable[tuple[int, Outgoing]]) -> None:
        from confluent_kafka import KafkaException

        for line, record in records:
            try:
                self._send(record, line)
            except (KafkaException, ValueError, TypeError, OverflowError) as error:
                if is_over(error):
                    if not self._in_transaction:
                        flushed(self._client, 0)  # it raises the reason, if this is not it
                    raise
                raise CommandError(f"line {line}: {self._why(error, record)}{self.sent}") from None

    @property
    def sent(self) -> str:
        """What to say of the records before one that is wrong."""
        if self._in_transaction:
            return ""
        self.finish()
        return self._deliveries.sent

    def finish(self) -> int:
        """Wait until everything is acknowledged; how many records are not."""
        return flushed(self._client, DELIVERY_S)

    def _send(self, record: Outgoing, line: int) -> None:
        placed: dict[str, Any] = {}
        if record.partition is not None:
            placed["partition"] = record.partition
        if record.timestamp_ms is not None:
            placed["timestamp"] = record.timestamp_ms

        def on_delivery(error: Any, message: Any) -> None:
            if error is None:
                self._deliveries.on_acknowledged(1, len(message.key() or b"") + len(message.value() or b""))
            elif is_dropped(error):
                self._deliveries.failed += 1
            else:
                self._deliveries.on_refused(lambda: f"line {line}: {explain(error)}")

        while True:
            try:
                self._client.produce(
                    self._topic, record.value, record.key, headers=cast("Any", record.headers or None),
                    on_delivery=on_delivery, **placed,
                )  # fmt: skip
            except BufferError:
                self._client.poll(QUEUE_FULL_S)
            else:
                self._client.poll(0)
                return

    def _why(self, error: Exception, record: Outgoing) -> str:
        size = len(record.key or b"") + len(record.value or b"")
        if size > self._limit:
            return f"the record takes {size} bytes, more than message.max.bytes ({self._limit})"
        return explain(error)


class Reading:
    """An input that can be interrupted, and nothing else: a Ctrl-C in the middle of librdkafka comes out of
    it in several ways, and some of them lose records."""

    def __init__(self) -> None:
        self._is_reading = False
        self._is_stopped = False

    def on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._is_stopped = True
        if self._is_reading:
            raise KeyboardInterrupt

    def records(self, given: Iterable[tuple[int, Outgoing]]) -> Iterator[tuple[int, Outgoing]]:
        rest = iter(given)
        while True:
            self._is_reading = True
            try:
                if self._is_stopped:
                    raise KeyboardInterrupt
                record = next(rest, None)
            finally:
                self._is_reading = False
            if record is None:
                return
            yield record


@contextmanager
def interruptible() -> Iterator[Reading]:
    """A Ctrl-C, while this lasts, waits for the next record."""
    reading = Reading()
    before = signal.signal(signal.SIGINT, reading.on_signal)
    try:
        yield reading
    finally:
        signal.signal(signal.SIGINT, before)
