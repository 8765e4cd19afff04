"""Records as they come from librdkafka; `ottla consume` with and without a group shares it."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from ottla.cli import cluster
from ottla.cli.errors import CommandError, is_interrupt
from ottla.cli.formats import Message, Pairs

if TYPE_CHECKING:
    import confluent_kafka
    from confluent_kafka import Consumer

POLL_S = 0.2
BATCH = 1000
SILENCE_S = 10.0


def next_messages(client: "Consumer", left: int | None) -> "list[confluent_kafka.Message]":
    """What is there, and at least one if one comes soon; never more than are `left` to read."""
    most = BATCH if left is None else min(left, BATCH)
    with interrupts_known():
        first = client.poll(POLL_S)
        if first is None or most == 1:
            return [] if first is None else [first]
        return [first, *client.consume(most - 1, 0)]


@contextlib.contextmanager
def interrupts_known() -> Iterator[None]:
    """For those who end in good order after a Ctrl-C, whatever it comes as."""
    try:
        yield
    except SystemError as error:
        if is_interrupt(error):
            raise KeyboardInterrupt from error
        raise


def is_end(message: "confluent_kafka.Message") -> bool:
    """Whether this is the news that a partition has no more records now. Any other error ends the command."""
    from confluent_kafka import KafkaError

    error = message.error()
    if error is None:
        return False
    if error.code() == KafkaError._PARTITION_EOF:
        return True
    topic, partition = message.topic(), message.partition()
    where = f"topic {topic}, partition {partition}: " if topic and partition is not None else ""
    raise CommandError(where + cluster.explain(error))


def as_message(message: "confluent_kafka.Message") -> Message:
    _, timestamp_ms = message.timestamp()
    return Message(
        message.topic() or "",
        message.partition() or 0,
        message.offset() or 0,
        timestamp_ms,
        message.key(),
        message.value(),
        cast("Pairs", message.headers() or []),
    )
