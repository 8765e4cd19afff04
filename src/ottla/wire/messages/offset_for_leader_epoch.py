"""OffsetForLeaderEpoch (key 23), versions 2 to 4.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field
from typing import Annotated

from ottla.wire.schema import i16, i32, i64, message, since, struct


@struct
class OffsetForLeaderPartition:
    partition: i32
    current_leader_epoch: i32 = -1
    leader_epoch: i32


@struct
class OffsetForLeaderTopic:
    topic: str
    partitions: list[OffsetForLeaderPartition] = field(default_factory=list)


@message(key=23, versions=(2, 4), flexible=4)
class OffsetForLeaderEpochRequest:
    replica_id: Annotated[i32, since(3)] = -2
    topics: list[OffsetForLeaderTopic] = field(default_factory=list)


@struct
class EpochEndOffset:
    error_code: i16 = 0
    partition: i32
    leader_epoch: i32 = -1
    end_offset: i64 = -1


@struct
class OffsetForLeaderTopicResult:
    topic: str
    partitions: list[EpochEndOffset] = field(default_factory=list)


@message(key=23, versions=(2, 4), flexible=4)
class OffsetForLeaderEpochResponse:
    throttle_time_ms: i32 = 0
    topics: list[OffsetForLeaderTopicResult] = field(default_factory=list)
