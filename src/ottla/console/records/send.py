"""Records into a topic: new ones, or one that is there already, sent again, also to another topic.

A batch has a producer id and a sequence, so that it is stored once, however often it has to be sent.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ottla.base.command_error import USAGE, CommandError
from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.client import Client, ClientError
from ottla.client.formats import Outgoing
from ottla.client.partitioner import partition_of
from ottla.records.batch import NO_PRODUCER_ID, NO_SEQUENCE
from ottla.records.builder import NewRecord, build_batch

RECORD_BYTES_MAX = 64 << 20


class Sent(NamedTuple):
    topic: str
    partition: int
    offset: int


def send(client: Client, topic: str, partitions: list[int], record: Outgoing, now_ms: int) -> Sent:
    return send_all(client, topic, partitions, [record], now_ms)[0]


def send_all(
    client: Client, topic: str, partitions: list[int], records: Sequence[Outgoing], now_ms: int
) -> list[Sent]:
    """Where each of them is now. Those of one partition are one batch: all of them are stored, or none."""
    batches: dict[int, list[NewRecord]] = {}
    spots = []  # of each record: its partition, and the how manieth it is there
    for record in records:
        number = _partition(topic, partitions, record)
        batch = batches.setdefault(number, [])
        spots.append((number, len(batch)))
        timestamp_ms = now_ms if record.timestamp_ms is None else record.timestamp_ms
        batch.append(NewRecord(record.key, record.value, tuple(record.headers), timestamp_ms))
    producer_id, epoch = _producer_id(client)
    built = {
        TopicPartition(topic, number): build_batch(
            batch,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=NO_SEQUENCE if producer_id == NO_PRODUCER_ID else 0,
        )
        for number, batch in batches.items()
    }
    offsets = client.produce(built)
    return [Sent(topic, number, offsets[TopicPartition(topic, number)] + index) for number, index in spots]


def _partition(topic: str, partitions: list[int], record: Outgoing) -> int:
    """Without one the key decides, as for Java's clients; without a key it is the first one."""
    number = record.partition
    if number is None:
        return partitions[0] if record.key is None else partition_of(record.key, len(partitions))
    if number not in partitions:
        raise CommandError(
            f"{topic} has no partition {number}; it has {partitions[0]} to {partitions[-1]}", USAGE
        )
    return number


def _producer_id(client: Client) -> tuple[int, int]:
    """Older clusters want a right of its own for it; whoever lacks that sends without."""
    try:
        return client.producer_id()
    except ClientError as error:
        if error.code != ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise
        return NO_PRODUCER_ID, -1
