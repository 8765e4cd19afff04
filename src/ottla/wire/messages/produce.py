"""Produce (key 0), versions 3 to 13.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field
from typing import Annotated

from ottla.base.ids import ZERO_UUID
from ottla.wire.schema import Records, Uuid, i16, i32, i64, message, since, struct, tag, until


@struct
class PartitionProduceData:
    index: i32
    records: Records | None = None


@struct
class TopicProduceData:
    name: Annotated[str, until(12)] = ""
    topic_id: Annotated[Uuid, since(13)] = ZERO_UUID
    partition_data: list[PartitionProduceData] = field(default_factory=list)


@message(key=0, versions=(3, 13), flexible=9)
class ProduceRequest:
    transactional_id: str | None = None
    acks: i16
    timeout_ms: i32
    topic_data: list[TopicProduceData] = field(default_factory=list)


@struct
class BatchIndexAndErrorMessage:
    batch_index: i32
    batch_index_error_message: str | None = None


@struct
class LeaderIdAndEpoch:
    leader_id: i32 = -1
    leader_epoch: i32 = -1


@struct
class PartitionProduceResponse:
    index: i32
    error_code: i16 = 0
    base_offset: i64
    log_append_time_ms: i64 = -1
    log_start_offset: Annotated[i64, since(5)] = -1
    record_errors: Annotated[list[BatchIndexAndErrorMessage], since(8)] = field(default_factory=list)
    error_message: Annotated[str | None, since(8)] = None
    current_leader: Annotated[LeaderIdAndEpoch | None, since(10), tag(0)] = None


@struct
class TopicProduceResponse:
    name: Annotated[str, until(12)] = ""
    topic_id: Annotated[Uuid, since(13)] = ZERO_UUID
    partition_responses: list[PartitionProduceResponse] = field(default_factory=list)


@struct
class NodeEndpoint:
    node_id: i32
    host: str
    port: i32
    rack: str | None = None


@message(key=0, versions=(3, 13), flexible=9)
class ProduceResponse:
    responses: list[TopicProduceResponse] = field(default_factory=list)
    throttle_time_ms: i32 = 0
    node_endpoints: Annotated[list[NodeEndpoint], since(10), tag(0)] = field(default_factory=list)
