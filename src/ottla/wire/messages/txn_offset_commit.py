"""TxnOffsetCommit (key 28), versions 0 to 5.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field
from typing import Annotated

from ottla.wire.schema import i16, i32, i64, message, since, struct


@struct
class TxnOffsetCommitRequestPartition:
    partition_index: i32
    committed_offset: i64
    committed_leader_epoch: Annotated[i32, since(2)] = -1
    committed_metadata: str | None = None


@struct
class TxnOffsetCommitRequestTopic:
    name: str
    partitions: list[TxnOffsetCommitRequestPartition] = field(default_factory=list)


@message(key=28, versions=(0, 5), flexible=3)
class TxnOffsetCommitRequest:
    transactional_id: str
    group_id: str
    producer_id: i64
    producer_epoch: i16
    generation_id: Annotated[i32, since(3)] = -1
    member_id: Annotated[str, since(3)] = ""
    group_instance_id: Annotated[str | None, since(3)] = None
    topics: list[TxnOffsetCommitRequestTopic] = field(default_factory=list)


@struct
class TxnOffsetCommitResponsePartition:
    partition_index: i32
    error_code: i16 = 0


@struct
class TxnOffsetCommitResponseTopic:
    name: str
    partitions: list[TxnOffsetCommitResponsePartition] = field(default_factory=list)


@message(key=28, versions=(0, 5), flexible=3)
class TxnOffsetCommitResponse:
    throttle_time_ms: i32 = 0
    topics: list[TxnOffsetCommitResponseTopic] = field(default_factory=list)
