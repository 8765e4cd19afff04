"""Whether brokers have nothing left of transactions that is open, half done or pending, and replicas agree on
what they know of producers and of aborted transactions: looked at from outside, when the faults are over."""

from collections.abc import Iterator
from typing import Any

from tests.sim.invariants import Invariants

from ottla.base.ids import TopicPartition
from ottla.broker.broker import Broker
from ottla.txn.states import IDLE


def unsettled_brokers(invariants: Invariants) -> str | None:
    """Why not yet, if not yet."""
    for machine in invariants.machines.values():
        if machine.running is not None:
            for reason in (*_open_transactions(machine.running.broker), *_pending(machine.running.broker)):
                return f"broker {machine.id}: {reason}"
    for topic, (topic_id, assigned) in invariants.topics.items():
        for index, replicas in assigned.items():
            topic_partition = TopicPartition(topic, index)
            partitions = [invariants.replica(broker, topic_partition, topic_id) for broker in replicas]
            reason = _disagreement(partitions)
            if reason is not None:
                return f"{topic_partition} on {replicas}: {reason}"
    return None


def _open_transactions(broker: Broker) -> Iterator[str]:
    for index, loaded in broker.coordinators.transactions.runtime.shards.items():
        for transaction in loaded.shard.transactions.values():
            if transaction.state not in IDLE:
                yield f"{transaction.transactional_id} of {index} is {transaction.state}"


def _pending(broker: Broker) -> Iterator[str]:
    for index, loaded in broker.coordinators.groups.runtime.shards.items():
        pending = loaded.shard.offsets.pending
        if pending._by_group or pending._by_producer or pending._ended:
            yield f"offsets are pending in {index}: {pending._by_group}, {pending._ended}"


def _disagreement(partitions: list[Any]) -> str | None:
    for partition in partitions:
        if partition is None:
            return "a replica is not there"
        if partition.last_stable_offset != partition.high_watermark:
            return f"{partition.last_stable_offset} of {partition.high_watermark} is stable"
    for what in (_producers, _aborted):
        views = [what(partition.log) for partition in partitions]
        if any(view != views[0] for view in views):
            return f"replicas disagree: {views}"
    return None


def _producers(log: Any) -> dict[int, tuple[Any, ...]]:
    """What a snapshot holds: of the batches the last one, and of times only the last of all."""
    return {
        producer_id: (
            producer.epoch, producer.coordinator_epoch, producer.txn_first_offset,
            [batch[:-1] for batch in producer.batches[-1:]],
        )
        for producer_id, producer in log.producers.by_id.items()
    }  # fmt: skip


def _aborted(log: Any) -> list[Any]:
    return sorted(log.segments.aborted_between(log.log_start_offset, log.log_end_offset))
