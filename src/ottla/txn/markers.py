"""What is sent to the leaders of a transaction's partitions once it is decided how it ends."""

from dataclasses import dataclass

from ottla.base.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class EndedTransaction:
    """A transaction whose end is decided and committed. Every partition of it gets a marker, however often it
    must be sent. `coordinator_epoch` is the leader epoch of the coordinator's partition, by which a leader
    refuses the markers of an old coordinator. With `transaction_version` 2 the marker's epoch is one more
    than that of the records (KIP-890)."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    partitions: frozenset[TopicPartition]
    coordinator_epoch: int
    transaction_version: int
