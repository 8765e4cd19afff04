"""Records of a topic through librdkafka: `ottla consume --follow`, or with properties that only that has.

Partitions are assigned, not subscribed to: nothing is committed, and no group is needed.
"""

import sys
import time
from typing import TYPE_CHECKING

from ottla.base.command_error import CommandError
from ottla.cli.records.messages import Write
from ottla.cli.records.ranges import Wanted, narrowed
from ottla.client.librdkafka import partition_offsets
from ottla.client.librdkafka.errors import REQUEST_S
from ottla.client.librdkafka.messages import SILENCE_S, assigned_messages, is_end

if TYPE_CHECKING:
    from confluent_kafka import Consumer, TopicPartition


def ranges(
    client: "Consumer", topic: str, partitions: list[int], asked: Wanted
) -> dict[int, tuple[int, int]]:
    """From where to where each partition is to be read."""
    bounds = {number: partition_offsets.watermarks(client, topic, number) for number in partitions}
    since, until = (_at(client, topic, partitions, time_ms) for time_ms in (asked.since_ms, asked.until_ms))
    return narrowed(asked, bounds, since, until)


def _at(client: "Consumer", topic: str, partitions: list[int], time_ms: int | None) -> dict[int, int | None]:
    from confluent_kafka import TopicPartition

    if time_ms is None:
        return {}
    asked = [TopicPartition(topic, number, time_ms) for number in partitions]
    answers = partition_offsets.patiently(lambda: _at_times(client, asked))
    return {answer.partition: answer.offset if answer.offset >= 0 else None for answer in answers}


def _at_times(client: "Consumer", asked: "list[TopicPartition]") -> "list[TopicPartition]":
    from confluent_kafka import KafkaException

    answers = client.offsets_for_times(asked, timeout=REQUEST_S)
    for answer in answers:
        if answer.error is not None:
            raise KafkaException(answer.error)
    return answers


def print_records(
    client: "Consumer",
    topic: str,
    wanted: dict[int, tuple[int, int]],
    most: int | None,
    write: Write,
    *,
    follow: bool,
) -> None:
    """Write records until every partition reached its end, or for ever."""
    from confluent_kafka import TopicPartition

    unfinished = {number for number, (start, end) in wanted.items() if follow or start < end}
    if not unfinished:
        return
    client.assign([TopicPartition(topic, number, wanted[number][0]) for number in sorted(unfinished)])
    out, left, heard = sys.stdout.buffer, most, time.monotonic()
    while unfinished and left != 0:
        messages = assigned_messages(client, left)
        for message in messages:
            if is_end(message):
                unfinished -= set() if follow else {message.partition()}
                continue
            number, position = message.partition() or 0, message.offset() or 0
            after = wanted[number][1]
            if not follow and position >= after - 1:
                unfinished.discard(number)
            if not follow and position >= after:
                continue
            written = write(message)
            if written is not None:
                out.write(written)
                left = None if left is None else left - 1
        out.flush()
        heard = time.monotonic() if messages else heard
        if not follow and time.monotonic() - heard > SILENCE_S:
            raise CommandError(f"no record came for {SILENCE_S:.0f} s, and the end is not reached")
