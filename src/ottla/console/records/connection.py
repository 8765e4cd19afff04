"""A client of the visitor's own, and how far the partitions of a topic reach."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from ottla.base.command_error import USAGE, CommandError
from ottla.base.ids import TopicPartition
from ottla.client import Client, ClientError
from ottla.client.properties import ClientProperties

CLIENT_ID = "ottla-console"
TIMEOUT_S = 15.0


class Extent(NamedTuple):
    """The offsets of a partition: the first one there, and the one after the last that a reader may see."""

    start: int
    end: int


def connect(where: ClientProperties) -> Client:
    return Client(where.bootstrap, client_id=CLIENT_ID, timeout_s=TIMEOUT_S, security=where.security)


@contextmanager
def connected(where: ClientProperties) -> Iterator[Client]:
    """CommandError: whatever the cluster refuses, in a sentence."""
    with explained(), connect(where) as client:
        yield client


@contextmanager
def explained() -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        raise CommandError(str(error), kafka_error=error.code.name if error.code else "") from None


def partitions_of(client: Client, topic: str) -> list[int]:
    """CommandError: there is no such topic."""
    partitions = client.partitions([topic]).get(topic)
    if not partitions:
        raise CommandError(f"there is no topic {topic!r}, or you may not see it", USAGE)
    return sorted(partitions)


def extents(
    client: Client, topic: str, partitions: Sequence[int], *, read_committed: bool
) -> dict[int, Extent]:
    topic_partitions = [TopicPartition(topic, number) for number in partitions]
    starts = client.starts(topic_partitions)
    ends = client.ends(topic_partitions, read_committed=read_committed)
    return {
        asked.partition: Extent(starts[asked], max(starts[asked], ends[asked])) for asked in topic_partitions
    }
