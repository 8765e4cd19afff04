"""WriteTxnMarkers (key 27), versions 1 to 2.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field
from typing import Annotated

from ottla.wire.schema import i8, i16, i32, i64, message, since, struct


@struct
class WritableTxnMarkerTopic:
    name: str
    partition_indexes: list[i32] = field(default_factory=list)


@struct
class WritableTxnMarker:
    producer_id: i64
    producer_epoch: i16
    transaction_result: bool
    topics: list[WritableTxnMarkerTopic] = field(default_factory=list)
    coordinator_epoch: i32
    transaction_version: Annotated[i8, since(2)] = 0


@message(key=27, versions=(1, 2), flexible=1)
class WriteTxnMarkersRequest:
    markers: list[WritableTxnMarker] = field(default_factory=list)


@struct
class WritableTxnMarkerPartitionResult:
    partition_index: i32
    error_code: i16 = 0


@struct
class WritableTxnMarkerTopicResult:
    name: str
    partitions: list[WritableTxnMarkerPartitionResult] = field(default_factory=list)


@struct
class WritableTxnMarkerResult:
    producer_id: i64
    topics: list[WritableTxnMarkerTopicResult] = field(default_factory=list)


@message(key=27, versions=(1, 2), flexible=1)
class WriteTxnMarkersResponse:
    markers: list[WritableTxnMarkerResult] = field(default_factory=list)
