"""WriteTxnMarkers (key 27): end transactions in the partitions that this broker leads. Coordinators of
transactions ask for it, and the admin client where a transaction hangs (`kafka-transactions.sh abort`).

A partition is answered when its marker is committed, with REQUEST_TIMED_OUT if that takes too long; the
coordinator asks again, and a marker that is there already is answered as written. INVALID_PRODUCER_EPOCH and
TRANSACTION_COORDINATOR_FENCED: somebody newer has written to the partition, or ended the transaction.
THROTTLING_QUOTA_EXCEEDED: a client ends the transaction of a producer that is not known here, and there is no
room for another. A partition that is named twice for a producer gets both markers.

v1 flexible · v2 the version of the transaction (KIP-1228)
"""

from dataclasses import dataclass, field

from ottla.api.call import Call
from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.broker.long_work import TO_BE_FINISHED, Steps
from ottla.broker.marker_writes import MarkerWrite, MarkerWrites, wait_keys
from ottla.broker.parked import Key, Parked
from ottla.records.control import Marker
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

WAIT_MS = 5_000  # a partition that is not replicated holds up the others of the request no longer


@dataclass(slots=True)
class Ending:
    """One request on its way: what is answered, and the markers that are not committed yet."""

    markers: MarkerWrites
    response: WriteTxnMarkersResponse = field(default_factory=WriteTxnMarkersResponse)
    open: list[tuple[MarkerWrite, WritableTxnMarkerPartitionResult]] = field(default_factory=list)

    def ready(self, _key: Key, now_ms: int) -> WriteTxnMarkersResponse | None:
        still = []
        for write, result in self.open:
            if self.markers.is_settled(write, now_ms):
                result.error_code = write.error or ErrorCode.NONE
            else:
                still.append((write, result))
        self.open = still
        return None if still else self.response

    def expire(self, _now_ms: int) -> WriteTxnMarkersResponse:
        for _, result in self.open:
            result.error_code = ErrorCode.REQUEST_TIMED_OUT
        return self.response


def write_txn_markers(call: Call, request: WriteTxnMarkersRequest) -> Steps:
    yield TO_BE_FINISHED
    ending = Ending(call.broker.marker_writes)
    is_from_broker = call.broker.identities.is_broker(call.connection)
    for asked in request.markers:
        marker = Marker(
            asked.producer_id, asked.producer_epoch, asked.transaction_result, asked.coordinator_epoch,
            asked.transaction_version,
        )  # fmt: skip
        result = WritableTxnMarkerResult(producer_id=asked.producer_id)
        ending.response.markers.append(result)
        for topic in asked.topics:
            partitions: list[WritableTxnMarkerPartitionResult] = []
            result.topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=partitions))
            for index in topic.partition_indexes:
                answer = WritableTxnMarkerPartitionResult(partition_index=index)
                partitions.append(answer)
                write = ending.markers.write(
                    TopicPartition(topic.name, index), marker, call.now_ms, is_from_broker=is_from_broker
                )
                ending.open.append((write, answer))
                yield
    if ending.ready(None, call.now_ms) is not None:
        return ending.response
    return Parked(
        keys=wait_keys(write for write, _ in ending.open),
        deadline_ms=call.now_ms + WAIT_MS,
        ready=ending.ready,
        expire=ending.expire,
    )
