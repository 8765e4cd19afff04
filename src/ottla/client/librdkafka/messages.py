"""Records as they come from librdkafka, and what confluent-kafka gets wrong about them set right."""

import contextlib
import time
from collections.abc import Callable, Iterator
from operator import methodcaller
from typing import TYPE_CHECKING, TypeAlias, cast

from ottla.base.command_error import CommandError
from ottla.client.librdkafka.errors import explain

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message, Producer

Headers: TypeAlias = list[tuple[str, bytes | None]]

_headers_of = methodcaller("headers")
POLL_S = 0.2
FLUSH_STEP_S = 0.1
BATCH = 1000
SILENCE_S = 10.0


def next_messages(client: "Consumer", left: int | None) -> "list[Message]":
    """What is there, and at least one if one comes soon; never more than are `left` to read."""
    most = BATCH if left is None else min(left, BATCH)
    with interrupts_known():
        first = client.poll(POLL_S)
        if first is None or most == 1:
            return [] if first is None else [first]
        return [first, *client.consume(most - 1, 0)]


def assigned_messages(client: "Consumer", left: int | None) -> "list[Message]":
    """The same of a consumer that was given its partitions. librdkafka looks for the coordinator of its group
    all the same, which it has no need of, and need not be allowed to."""
    from confluent_kafka import KafkaError

    def is_of_the_group(message: "Message") -> bool:
        error = message.error()
        return error is not None and error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED

    return [message for message in next_messages(client, left) if not is_of_the_group(message)]


def flushed(client: "Producer", most_s: float) -> int:
    """Wait until everything is acknowledged; how many records are not. In short steps: a longer one goes on
    with delivery reports after an error that is fatal, and that error is lost in them."""
    deadline = time.monotonic() + most_s
    while (left := client.flush(FLUSH_STEP_S)) and time.monotonic() < deadline:
        pass
    return left


@contextlib.contextmanager
def interrupts_known() -> Iterator[None]:
    """For those who end in good order after a Ctrl-C, whatever it comes as."""
    try:
        yield
    except SystemError as error:
        if isinstance(error.__cause__, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        raise


def is_end(message: "Message") -> bool:
    """Whether this is the news that a partition has no more records now. Any other error ends the command."""
    from confluent_kafka import KafkaError

    error = message.error()
    if error is None:
        return False
    if error.code() == KafkaError._PARTITION_EOF:
        return True
    topic, partition = message.topic(), message.partition()
    where = f"topic {topic}, partition {partition}: " if topic and partition is not None else ""
    raise CommandError(where + explain(error))


def headers_of(message: "Message", say: Callable[[str], None]) -> Headers:
    """None, and a remark, if a key is not UTF-8: confluent-kafka makes text of every key, and fails. It must
    not be asked again: the list that it gives then has a hole, and whoever looks at that crashes. It gives
    the list and an error at once, which Python only notices if the method is called by other C code: a call
    that it has seen a few times goes past that check, and the error comes out of whatever is done next."""
    try:
        return cast("Headers", _headers_of(message) or [])
    except (SystemError, UnicodeDecodeError) as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, UnicodeDecodeError):
            cause = cause.__cause__ or cause.__context__
        if cause is None:
            raise
        where = f"topic {message.topic()}, partition {message.partition()}, offset {message.offset()}"
        say(f"{where}: its headers are left out, as a key is not UTF-8: {cause.object!r}")
        return []
