"""Control records: what a broker writes into a log for consumers to act upon and never to show.

The key of a control record is a version and a type; the value of the one that ends a transaction is a version
and the epoch of the coordinator that ended it. A later version may add fields after these, so more bytes are
ignored and a higher version is read as this one; a type we do not know is left to the reader to skip.
"""

from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from ottla.base.errors import ApiError, ErrorCode
from ottla.records.builder import NewRecord, build_batch

_KEY = Struct(">hh")
_MARKER = Struct(">hi")
_VERSION = 0


class ControlType(IntEnum):
    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1


class EndTransaction(NamedTuple):
    """The marker that ends a transaction in one partition."""

    committed: bool
    coordinator_epoch: int


class Marker(NamedTuple):
    """What a coordinator asks of the leader of a partition: end this producer's transaction."""

    producer_id: int
    producer_epoch: int
    committed: bool
    coordinator_epoch: int
    transaction_version: int


def build_marker(
    producer_id: int, producer_epoch: int, committed: bool, coordinator_epoch: int, timestamp_ms: int
) -> bytearray:
    """The batch that ends a transaction: one control record, no sequence, never compressed."""
    kind = ControlType.COMMIT if committed else ControlType.ABORT
    key, value = _KEY.pack(_VERSION, kind), _MARKER.pack(_VERSION, coordinator_epoch)
    return build_batch(
        [NewRecord(key, value, (), timestamp_ms)],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


MARKER_BYTES = len(build_marker(0, 0, True, 0, 0))  # of every one


def control_type(key: bytes | None) -> ControlType:
    if key is None or len(key) < _KEY.size:
        raise _invalid("a control record without a whole key")
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise _invalid(f"a control record of version {version}")
    return ControlType(number) if number in (ControlType.ABORT, ControlType.COMMIT) else ControlType.UNKNOWN


def read_marker(key: bytes | None, value: bytes | None) -> EndTransaction | None:
    """The marker in a control record, or None if the record is something else."""
    kind = control_type(key)
    if kind is ControlType.UNKNOWN:
        return None
    if value is None or len(value) < _MARKER.size:
        raise _invalid("an end of transaction without a whole value")
    version, epoch = _MARKER.unpack_from(value)
    if version < 0:
        raise _invalid(f"an end of transaction of version {version}")
    return EndTransaction(kind is ControlType.COMMIT, epoch)


def _invalid(what: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_RECORD, f"The batch is malformed: {what}.")
