"""Transactions that hang: open in a partition, and no coordinator will ever end them (KIP-664).

A producer that was cut off can leave records behind its transaction's end, from before brokers checked for
that (KIP-890) or with the check turned off. Readers of committed records wait at the first of them for ever.

Not obvious: the partitions are asked first, the coordinators then, and what seems to hang is looked at once
more in the partition: a transaction that ended between the first two questions would look the same.
"""

from collections.abc import Collection, Iterable

from ottla.base.command_error import CommandError
from ottla.base.ids import TopicPartition
from ottla.cli import output
from ottla.client import transaction_states
from ottla.client.cluster import Cluster
from ottla.client.librdkafka.errors import REQUEST_S, meant
from ottla.client.retry import Deadline, until
from ottla.client.transaction_states import Described, Filters, OpenTransaction


def partitions(
    cluster: Cluster, name: str | None, number: int | None = None, broker: int | None = None
) -> list[TopicPartition]:
    """The partitions to search, all of which must be there; those without a leader are left out."""
    deadline = Deadline(REQUEST_S)
    metadata = until(deadline, "asking for the topics", lambda: cluster.refresh(None, deadline))
    topics = {topic.name or "": topic for topic in metadata.topics}
    if broker is not None and broker not in cluster.brokers:
        raise CommandError(
            f"there is no broker {broker}, only {', '.join(map(str, sorted(cluster.brokers)))}"
        )
    if name is not None and name not in topics:
        raise CommandError(f"there is no topic {name!r}{meant(name, topics)}")
    if name is not None and number is not None:
        count = len(topics[name].partitions)
        if number >= count:
            raise CommandError(f"topic {name} has no partition {number}, only 0 to {count - 1}")
    searched = []
    for topic in [topics[name]] if name is not None else topics.values():
        for partition in topic.partitions:
            topic_partition = TopicPartition(topic.name or "", partition.partition_index)
            if number not in (None, topic_partition.partition):
                continue
            if broker is not None and broker not in partition.replica_nodes:
                continue
            if partition.leader_id < 0:
                output.say(f"{topic_partition} has no leader, and is left out")
                continue
            searched.append(topic_partition)
    return searched


def hanging(
    cluster: Cluster, topic_partitions: Collection[TopicPartition], idle_since_ms: int
) -> list[OpenTransaction]:
    """Those among some partitions that wrote nothing since a time."""
    candidates = [
        transaction
        for transaction in transaction_states.open_transactions(
            cluster, topic_partitions, Deadline(REQUEST_S)
        )
        if transaction.last_timestamp_ms < idle_since_ms
    ]
    left = without_coordinator(cluster, candidates)
    if not left:
        return []
    partitions = {transaction.topic_partition for transaction in left}
    still_open = transaction_states.open_transactions(cluster, partitions, Deadline(REQUEST_S))
    return sorted(set(left) & set(still_open))


def without_coordinator(cluster: Cluster, transactions: Collection[OpenTransaction]) -> list[OpenTransaction]:
    """Those of them that no coordinator has among its open transactions. Every broker must answer."""
    if not transactions:
        return []
    held = {
        (described.producer_id, topic_partition)
        for described in _described(cluster, {transaction.producer_id for transaction in transactions})
        for topic_partition in described.partitions
    }
    return [
        transaction
        for transaction in transactions
        if (transaction.producer_id, transaction.topic_partition) not in held
    ]


def _described(cluster: Cluster, producer_ids: Iterable[int]) -> Iterable[Described]:
    filters = Filters(producer_ids=sorted(producer_ids))
    for node in sorted(cluster.brokers):
        for transaction in transaction_states.listed(cluster, node, filters, Deadline(REQUEST_S)):
            described = transaction_states.described(
                cluster, transaction.transactional_id, Deadline(REQUEST_S)
            )
            if described is not None:
                yield described
