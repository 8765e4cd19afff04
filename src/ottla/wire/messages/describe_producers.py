"""DescribeProducers (key 61), versions 0 to 0.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field

from ottla.wire.schema import i16, i32, i64, message, struct


@struct
class TopicRequest:
    name: str
    partition_indexes: list[i32] = field(default_factory=list)


@message(key=61, versions=(0, 0), flexible=0)
class DescribeProducersRequest:
    topics: list[TopicRequest] = field(default_factory=list)


@struct
class ProducerState:
    producer_id: i64
    producer_epoch: i32
    last_sequence: i32 = -1
    last_timestamp: i64 = -1
    coordinator_epoch: i32
    current_txn_start_offset: i64 = -1


@struct
class PartitionResponse:
    partition_index: i32
    error_code: i16 = 0
    error_message: str | None = None
    active_producers: list[ProducerState] = field(default_factory=list)


@struct
class TopicResponse:
    name: str
    partitions: list[PartitionResponse] = field(default_factory=list)


@message(key=61, versions=(0, 0), flexible=0)
class DescribeProducersResponse:
    throttle_time_ms: i32 = 0
    topics: list[TopicResponse] = field(default_factory=list)
