"""ListOffsets (key 2), versions 1 to 11.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field
from typing import Annotated

from ottla.wire.schema import i8, i16, i32, i64, message, since, struct


@struct
class ListOffsetsPartition:
    partition_index: i32
    current_leader_epoch: Annotated[i32, since(4)] = -1
    timestamp: i64


@struct
class ListOffsetsTopic:
    name: str
    partitions: list[ListOffsetsPartition] = field(default_factory=list)


@message(key=2, versions=(1, 11), flexible=6)
class ListOffsetsRequest:
    replica_id: i32
    isolation_level: Annotated[i8, since(2)] = 0
    topics: list[ListOffsetsTopic] = field(default_factory=list)
    timeout_ms: Annotated[i32, since(10)] = 0


@struct
class ListOffsetsPartitionResponse:
    partition_index: i32
    error_code: i16 = 0
    timestamp: i64 = -1
    offset: i64 = -1
    leader_epoch: Annotated[i32, since(4)] = -1


@struct
class ListOffsetsTopicResponse:
    name: str
    partitions: list[ListOffsetsPartitionResponse] = field(default_factory=list)


@message(key=2, versions=(1, 11), flexible=6)
class ListOffsetsResponse:
    throttle_time_ms: Annotated[i32, since(2)] = 0
    topics: list[ListOffsetsTopicResponse] = field(default_factory=list)
