"""OffsetFetch (key 9), versions 1 to 10.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field
from typing import Annotated

from ottla.base.ids import ZERO_UUID
from ottla.wire.schema import Uuid, i16, i32, i64, message, nullable, since, struct, until


@struct
class OffsetFetchRequestTopics:
    name: Annotated[str, until(9)] = ""
    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    partition_indexes: list[i32] = field(default_factory=list)


@struct
class OffsetFetchRequestGroup:
    group_id: str
    member_id: Annotated[str | None, since(9)] = None
    member_epoch: Annotated[i32, since(9)] = -1
    topics: list[OffsetFetchRequestTopics] | None = field(default_factory=list)


@struct
class OffsetFetchRequestTopic:
    name: str
    partition_indexes: list[i32] = field(default_factory=list)


@message(key=9, versions=(1, 10), flexible=6)
class OffsetFetchRequest:
    group_id: Annotated[str, until(7)] = ""
    topics: Annotated[list[OffsetFetchRequestTopic] | None, until(7), nullable(2)] = field(
        default_factory=list
    )
    groups: Annotated[list[OffsetFetchRequestGroup], since(8)] = field(default_factory=list)
    require_stable: Annotated[bool, since(7)] = False


@struct
class OffsetFetchResponsePartitions:
    partition_index: i32
    committed_offset: i64
    committed_leader_epoch: i32 = -1
    metadata: str | None = None
    error_code: i16 = 0


@struct
class OffsetFetchResponseTopics:
    name: Annotated[str, until(9)] = ""
    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    partitions: list[OffsetFetchResponsePartitions] = field(default_factory=list)


@struct
class OffsetFetchResponseGroup:
    group_id: str
    topics: list[OffsetFetchResponseTopics] = field(default_factory=list)
    error_code: i16 = 0


@struct
class OffsetFetchResponsePartition:
    partition_index: i32
    committed_offset: i64
    committed_leader_epoch: Annotated[i32, since(5)] = -1
    metadata: str | None = None
    error_code: i16 = 0


@struct
class OffsetFetchResponseTopic:
    name: str
    partitions: list[OffsetFetchResponsePartition] = field(default_factory=list)


@message(key=9, versions=(1, 10), flexible=6)
class OffsetFetchResponse:
    throttle_time_ms: Annotated[i32, since(3)] = 0
    topics: Annotated[list[OffsetFetchResponseTopic], until(7)] = field(default_factory=list)
    error_code: Annotated[i16, since(2), until(7)] = 0
    groups: Annotated[list[OffsetFetchResponseGroup], since(8)] = field(default_factory=list)
