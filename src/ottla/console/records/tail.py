"""Records as they come, no more than a person can read: the rest is counted and left out.

A look at all partitions in one request per leader, a few times a second, so a hundred partitions cost as
little as one, and nobody is asked to wait with an answer. Ends by itself after TAIL_S_MAX: a forgotten
browser tab must not read a topic for ever.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ottla.base.command_error import CommandError
from ottla.base.ids import TopicPartition
from ottla.client import Client, ClientError
from ottla.client.formats import Message
from ottla.console.records.batches import Problems, messages
from ottla.console.records.connection import extents
from ottla.console.records.positions import Positions

PAUSE_S = 0.25
TAIL_S_MAX = 30 * 60.0
RECORDS_PER_LOOK = 50
FETCH_BYTES_MAX = 8 << 20
REFRESH_S = 10.0  # a partition that is behind a new leader, or was cut, is found by then


@dataclass(frozen=True)
class Came:
    """What came since the last look, in order of time, and how much was left out, as it was too much."""

    messages: list[Message]
    left_out: int


@dataclass(frozen=True)
class Idle:
    """Nothing came. Said so that whoever sends it on sees if anybody still listens."""


@dataclass(frozen=True)
class Over:
    """It has gone on for long enough."""


Event = Came | Idle | Over


def tail(
    connect: Callable[[], Client],
    topic: str,
    partitions: list[int],
    start: Positions | None = None,
    *,
    read_committed: bool = True,
    is_wanted: Callable[[Message], bool] = lambda _: True,
    pause: Callable[[float], None] = time.sleep,
    seconds_max: float = TAIL_S_MAX,
) -> Iterator[Event]:
    """From these positions on, or from the end. Events come several times a second."""
    deadline_s = time.monotonic() + seconds_max
    try:
        with connect() as client:
            ends = extents(client, topic, partitions, read_committed=read_committed)
            positions = {number: (start or {}).get(number, ends[number].end) for number in partitions}
            refreshed_s = time.monotonic()
            while time.monotonic() < deadline_s:
                came = _look(client, topic, positions, read_committed, is_wanted)
                yield came if came.messages or came.left_out else Idle()
                if time.monotonic() - refreshed_s > REFRESH_S:
                    refreshed_s = time.monotonic()
                    _catch_up(client, topic, positions, read_committed)
                pause(PAUSE_S)
    except ClientError as error:
        raise CommandError(str(error)) from None
    yield Over()


def _look(
    client: Client,
    topic: str,
    positions: Positions,
    read_committed: bool,
    is_wanted: Callable[[Message], bool],
) -> Came:
    asked = {TopicPartition(topic, number): offset for number, offset in positions.items()}
    begun = client.fetch_together(asked, read_committed=read_committed, max_bytes=FETCH_BYTES_MAX)
    fresh: list[Message] = []
    for topic_partition, (fetched, after) in begun.items():
        first = positions[topic_partition.partition]
        came = messages(topic, topic_partition.partition, [fetched], Problems())
        fresh += [message for message in came if message.offset >= first and is_wanted(message)]
        positions[topic_partition.partition] = after
    fresh.sort(key=lambda message: (message.timestamp_ms, message.partition, message.offset))
    return Came(fresh[-RECORDS_PER_LOOK:], max(0, len(fresh) - RECORDS_PER_LOOK))


def _catch_up(client: Client, topic: str, positions: Positions, read_committed: bool) -> None:
    """`fetch_together` reports no errors: a log that was cut is found here, and so is a new leader."""
    for number, extent in extents(client, topic, list(positions), read_committed=read_committed).items():
        if not extent.start <= positions[number] <= extent.end:
            positions[number] = min(max(positions[number], extent.start), extent.end)
