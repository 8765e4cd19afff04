"""OffsetDelete (key 47), versions 0 to 0.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field

from ottla.wire.schema import i16, i32, message, struct


@struct
class OffsetDeleteRequestPartition:
    partition_index: i32


@struct
class OffsetDeleteRequestTopic:
    name: str
    partitions: list[OffsetDeleteRequestPartition] = field(default_factory=list)


@message(key=47, versions=(0, 0), flexible=None)
class OffsetDeleteRequest:
    group_id: str
    topics: list[OffsetDeleteRequestTopic] = field(default_factory=list)


@struct
class OffsetDeleteResponsePartition:
    partition_index: i32
    error_code: i16 = 0


@struct
class OffsetDeleteResponseTopic:
    name: str
    partitions: list[OffsetDeleteResponsePartition] = field(default_factory=list)


@message(key=47, versions=(0, 0), flexible=None)
class OffsetDeleteResponse:
    error_code: i16 = 0
    throttle_time_ms: i32 = 0
    topics: list[OffsetDeleteResponseTopic] = field(default_factory=list)
