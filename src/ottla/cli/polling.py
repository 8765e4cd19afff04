"""Records as they come from librdkafka; `ottla consume` with and without a group shares it."""

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias, cast

from ottla.cli import cluster
from ottla.cli.errors import CommandError, is_interrupt
from ottla.cli.formats import Formatter, Message, Pairs
from ottla.cli.output import say

if TYPE_CHECKING:
    import confluent_kafka
    from confluent_kafka import Consumer

Write: TypeAlias = "Callable[[confluent_kafka.Message], bytes]"

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


def writer(write: Formatter, *, with_headers: bool) -> Write:
    """What writes a record of librdkafka's. Headers are looked at only if they are shown."""
    return lambda message: write(as_message(message, headers_of(message) if with_headers else []))


def as_message(message: "confluent_kafka.Message", headers: Pairs) -> Message:
    _, timestamp_ms = message.timestamp()
    return Message(
        message.topic() or "",
        message.partition() or 0,
        message.offset() or 0,
        timestamp_ms,
        message.key(),
        message.value(),
        headers,
    )


def headers_of(message: "confluent_kafka.Message") -> Pairs:
    """None, and a remark, if a key is not UTF-8: confluent-kafka makes text of every key, and fails. It must
    not be asked again: the list that it gives then has a hole, and whoever looks at that crashes."""
    try:
        return cast("Pairs", message.headers() or [])
    except (SystemError, UnicodeDecodeError) as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, UnicodeDecodeError):
            cause = cause.__cause__ or cause.__context__
        if cause is None:
            raise
        where = f"topic {message.topic()}, partition {message.partition()}, offset {message.offset()}"
        say(f"{where}: its headers are left out, as a key is not UTF-8: {cause.object!r}")
        return []
