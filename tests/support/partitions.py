"""Partitions for tests that look at one alone."""

from ottla.base.ids import TopicPartition
from ottla.log.log import Log
from ottla.replication.partition import Partition


def new_partition(log: Log, topic_partition: TopicPartition, topic_id: bytes, *, broker_id: int) -> Partition:
    """A partition that has heard of no leader yet."""
    return Partition(
        topic_partition=topic_partition,
        topic_id=topic_id,
        log=log,
        broker_id=broker_id,
        leader=-1,
        leader_epoch=-1,
        isr=(),
        high_watermark=0,
    )
