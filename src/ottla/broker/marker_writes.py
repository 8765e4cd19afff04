"""Markers that end transactions, written into partitions that this broker leads.

A marker has arrived when the high watermark has passed it. While that is open its writer waits under the
partition and its `Proof`. The two errors after which a coordinator sends no marker any more are only said
if this broker surely leads: one that was replaced may remember a producer that the partition's leader never
heard of, and the transaction would stay open there for ever.

In a partition of `__consumer_offsets` the group coordinator writes the marker, and takes in what it means.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import OFFSETS_TOPIC, TopicPartition
from ottla.broker.leadership_proofs import Proof, Proofs
from ottla.broker.parked import Key
from ottla.log.log import Appended
from ottla.records.control import Marker
from ottla.replication.partition import Partition

FENCED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED})


class LocalPartitions(Protocol):
    """The partitions of this broker."""

    def find(self, topic: str, index: int) -> Partition: ...


@dataclass(slots=True, eq=False)
class MarkerWrite:
    """A marker on its way into a partition. `error` is what became of it, None while that is open."""

    topic_partition: TopicPartition
    asked_ms: int
    partition: Partition | None = None
    leader_epoch: int = -1
    end_offset: int = 0
    refused: ErrorCode | None = None
    error: ErrorCode | None = None


@dataclass(slots=True)
class MarkerWrites:
    """`append` writes a marker into a partition, `end_group_transaction` into one of `__consumer_offsets`."""

    partitions: LocalPartitions
    proofs: Proofs
    append: Callable[[Partition, Marker, int, int], Appended]
    end_group_transaction: Callable[[int, Marker, int], object]
    wall_ms: Callable[[int], int]

    def write(
        self, topic_partition: TopicPartition, marker: Marker, now_ms: int, *, is_from_broker: bool = True
    ) -> MarkerWrite:
        """Where it is not from a broker, its producer may be made up, and takes the place of no other."""
        write = MarkerWrite(topic_partition, now_ms)
        try:
            write.partition = partition = self.partitions.find(*topic_partition)
            partition.check_leader()
            if not is_from_broker:
                partition.log.producers.check_room(marker.producer_id, now_ms)
            if topic_partition.topic == OFFSETS_TOPIC:
                self.end_group_transaction(topic_partition.partition, marker, now_ms)
            else:
                self.append(partition, marker, now_ms, self.wall_ms(now_ms))
        except ApiError as error:
            if error.code in FENCED:
                write.refused = error.code
            elif error.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                # That of groups loads: a sender of markers expects to hear this, and tries again.
                write.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
            else:
                write.error = error.code
        if write.partition is not None:
            write.leader_epoch = write.partition.leader_epoch
            write.end_offset = write.partition.log.log_end_offset
        self.is_settled(write, now_ms)
        return write

    def is_settled(self, write: MarkerWrite, now_ms: int) -> bool:
        """Is it known what became of a marker? If not, what tells it is asked for."""
        partition = write.partition
        if write.error is not None or partition is None:
            return True
        if not partition.is_leader or partition.leader_epoch != write.leader_epoch:
            write.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif write.refused is None:
            if partition.high_watermark >= write.end_offset:
                write.error = ErrorCode.NONE
        elif self.proofs.led_at(partition, write.asked_ms, now_ms):
            write.error = write.refused
        elif partition.topic_partition in self.proofs.in_doubt:
            write.error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        else:
            self.proofs.ask_for(partition, write.asked_ms, now_ms)
        return write.error is not None


def wait_keys(writes: Iterable[MarkerWrite]) -> tuple[Key, ...]:
    """What wakes whoever waits for these."""
    waiting = dict.fromkeys(write.topic_partition for write in writes)
    return (*waiting, *map(Proof, waiting))
