"""OffsetCommit (key 8), versions 2 to 10.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field
from typing import Annotated

from ottla.base.ids import ZERO_UUID
from ottla.wire.schema import Uuid, i16, i32, i64, message, since, struct, until


@struct
class OffsetCommitRequestPartition:
    partition_index: i32
    committed_offset: i64
    committed_leader_epoch: Annotated[i32, since(6)] = -1
    committed_metadata: str | None = None


@struct
class OffsetCommitRequestTopic:
    name: Annotated[str, until(9)] = ""
    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    partitions: list[OffsetCommitRequestPartition] = field(default_factory=list)


@message(key=8, versions=(2, 10), flexible=8)
class OffsetCommitRequest:
    group_id: str
    generation_id_or_member_epoch: i32 = -1
    member_id: str
    retention_time_ms: Annotated[i64, until(4)] = -1
    group_instance_id: Annotated[str | None, since(7)] = None
    topics: list[OffsetCommitRequestTopic] = field(default_factory=list)


@struct
class OffsetCommitResponsePartition:
    partition_index: i32
    error_code: i16 = 0


@struct
class OffsetCommitResponseTopic:
    name: Annotated[str, until(9)] = ""
    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    partitions: list[OffsetCommitResponsePartition] = field(default_factory=list)


@message(key=8, versions=(2, 10), flexible=8)
class OffsetCommitResponse:
    throttle_time_ms: Annotated[i32, since(3)] = 0
    topics: list[OffsetCommitResponseTopic] = field(default_factory=list)
