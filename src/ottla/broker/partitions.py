"""A partition comes to this broker: its log is opened, or made."""

from typing import TYPE_CHECKING

from ottla.base.ids import TopicPartition
from ottla.replication.leader import PROMISE_MS
from ottla.replication.partition import Partition

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


def open_partition(broker: "Broker", id: TopicPartition, topic_id: bytes, now_ms: int) -> Partition:
    store, copies, promises = broker.store, broker.copies, dict[int, int]()
    log, no_configs = store.get(id), copies.has_none(id.topic)
    if log is None:
        config = broker.topic_log_config(id.topic)
        log = store.create(id, topic_id, config, now_ms, no_configs=no_configs)
        copies.on_created(log)
    else:
        promises[broker.id] = broker.opened_ms + PROMISE_MS  # whatever the process before may have promised
        if store.topic_id(id) is None:
            store.set_topic_id(id, topic_id, no_configs=no_configs)
        copies.note(id)
    if log.safe_end < log.log_end_offset:
        log.flush()  # what a crash left was seen by consumers before; the watermark must not go back
    partition = Partition(
        topic_partition=id, topic_id=topic_id, log=log, broker_id=broker.id,
        leader=-1, leader_epoch=-1, isr=(), promises=promises,
        high_watermark=max(store.high_watermarks.get(id, 0), log.log_start_offset),
    )  # fmt: skip
    broker.partitions[id] = partition
    return partition
