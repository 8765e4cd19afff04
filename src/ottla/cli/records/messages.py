"""Records of librdkafka's as the formats take them; `ottla consume` with and without a group shares it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from ottla.cli import output
from ottla.cli.records.filters import Filter
from ottla.cli.records.formats import Format
from ottla.client.formats import Message
from ottla.client.formats.rows import Pairs
from ottla.client.librdkafka.messages import headers_of

if TYPE_CHECKING:
    import confluent_kafka

Write: TypeAlias = "Callable[[confluent_kafka.Message], bytes | None]"


def writer(form: Format, chosen: Filter | None, *, with_headers: bool) -> Write:
    """What writes a record of librdkafka's, or gives None for one that is not wanted. Headers are looked at
    only if they are shown or asked for."""

    def write(message: "confluent_kafka.Message") -> bytes | None:
        record = as_message(message, headers_of(message, output.say) if with_headers else [])
        return form.write(record) if chosen is None or chosen(record) else None

    return write


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
