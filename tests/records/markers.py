"""Transaction markers, as Kafka's coordinator writes them: this broker only reads them so far."""

from struct import Struct

from ottla.records.builder import NewRecord, build_batch
from ottla.records.control import ControlType, EndTransaction

_VERSION = 0
_KEY = Struct(">hh")
_MARKER = Struct(">hi")


def marker_record(marker: EndTransaction, timestamp: int) -> NewRecord:
    kind = ControlType.COMMIT if marker.committed else ControlType.ABORT
    return NewRecord(
        _KEY.pack(_VERSION, kind), _MARKER.pack(_VERSION, marker.coordinator_epoch), (), timestamp
    )


def build_marker(
    marker: EndTransaction,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """The batch that ends a producer's transaction: one control record, no sequence, never compressed."""
    return build_batch(
        [marker_record(marker, timestamp)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )
