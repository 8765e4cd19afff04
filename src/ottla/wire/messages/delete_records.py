"""DeleteRecords (key 21), versions 0 to 2.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field

from ottla.wire.schema import i16, i32, i64, message, struct


@struct
class DeleteRecordsPartition:
    partition_index: i32
    offset: i64


@struct
class DeleteRecordsTopic:
    name: str
    partitions: list[DeleteRecordsPartition] = field(default_factory=list)


@message(key=21, versions=(0, 2), flexible=2)
class DeleteRecordsRequest:
    topics: list[DeleteRecordsTopic] = field(default_factory=list)
    timeout_ms: i32


@struct
class DeleteRecordsPartitionResult:
    partition_index: i32
    low_watermark: i64
    error_code: i16 = 0


@struct
class DeleteRecordsTopicResult:
    name: str
    partitions: list[DeleteRecordsPartitionResult] = field(default_factory=list)


@message(key=21, versions=(0, 2), flexible=2)
class DeleteRecordsResponse:
    throttle_time_ms: i32 = 0
    topics: list[DeleteRecordsTopicResult] = field(default_factory=list)
