"""Transactions in a log, without a coordinator: batches that belong to one, the markers that end it, and a
coordinator that says what a test wants it to."""

from dataclasses import dataclass, field
from typing import Any

from tests.api.asking import batch
from tests.support.groups import G

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.broker.broker import Broker
from ottla.broker.ports import Question
from ottla.records.control import Marker
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
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


def adding(
    offset: int,
    *partitions: int,
    group: str = G,
    producer_id: int = 7,
    epoch: int = 0,
    topic: str = "t",
    metadata: str | None = "",
    **who: Any,
) -> TxnOffsetCommitRequest:
    """Offsets of a group, as part of a transaction of `x`."""
    listed = [
        TxnOffsetCommitRequestPartition(
            partition_index=index,
            committed_offset=offset,
            committed_leader_epoch=4,
            committed_metadata=metadata,
        )
        for index in partitions or (0,)
    ]
    return TxnOffsetCommitRequest(
        transactional_id="x",
        group_id=group,
        producer_id=producer_id,
        producer_epoch=epoch,
        topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=listed)],
        **who,
    )


@dataclass(eq=False)
class FakeVerifier:
    """Answers at once with `code`, or not at all while that is None."""

    code: ErrorCode | None = ErrorCode.NONE
    questions: list[Question] = field(default_factory=list)

    def verify(self, question: Question) -> None:
        self.questions.append(question)
        if self.code is not None:
            codes = dict.fromkeys(question.topic_partitions, self.code) if self.code else {}
            question.then(codes, question.asked_ms)
