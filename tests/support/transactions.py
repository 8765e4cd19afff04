"""Transactions in a log, without a coordinator: batches that belong to one, and the markers that end it."""

from tests.api.asking import batch

from ottla.base.ids import TopicPartition
from ottla.broker.broker import Broker
from ottla.records.control import Marker
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)


def transactional(sequence: int = 0, *values: str, producer_id: int = 7, epoch: int = 0) -> bytes:
    return batch(
        *values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, transactional=True
    )


def open_transaction(broker: Broker, topic: str, now_ms: int, index: int = 0, **fields: int) -> None:
    """A batch that is in its log already, whoever verified it."""
    partition = broker.partitions[TopicPartition(topic, index)]
    broker.replicas.append(
        partition, memoryview(bytearray(transactional(**fields))), acks=1, now_ms=now_ms, wall_ms=now_ms,
        produce_version=12,
    )  # fmt: skip


def markers(marker: Marker, topic: str, *indexes: int) -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest(
        markers=[
            WritableTxnMarker(
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                transaction_result=marker.committed,
                topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=list(indexes))],
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=marker.transaction_version,
            )
        ]
    )
