"""DescribeQuorum (key 55), versions 0 to 2.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field
from typing import Annotated

from ottla.base.ids import ZERO_UUID
from ottla.wire.schema import Uuid, i16, i32, i64, message, since, struct, u16


@struct
class PartitionData:
    partition_index: i32


@struct
class TopicData:
    topic_name: str
    partitions: list[PartitionData] = field(default_factory=list)


@message(key=55, versions=(0, 2), flexible=0)
class DescribeQuorumRequest:
    topics: list[TopicData] = field(default_factory=list)


@struct
class ReplicaState:
    replica_id: i32
    replica_directory_id: Annotated[Uuid, since(2)] = ZERO_UUID
    log_end_offset: i64
    last_fetch_timestamp: Annotated[i64, since(1)] = -1
    last_caught_up_timestamp: Annotated[i64, since(1)] = -1


@struct
class PartitionDataResponse:
    partition_index: i32
    error_code: i16 = 0
    error_message: Annotated[str | None, since(2)] = None
    leader_id: i32
    leader_epoch: i32
    high_watermark: i64
    current_voters: list[ReplicaState] = field(default_factory=list)
    observers: list[ReplicaState] = field(default_factory=list)


@struct
class TopicDataResponse:
    topic_name: str
    partitions: list[PartitionDataResponse] = field(default_factory=list)


@struct
class Listener:
    name: str
    host: str
    port: u16


@struct
class Node:
    node_id: i32
    listeners: list[Listener] = field(default_factory=list)


@message(key=55, versions=(0, 2), flexible=0)
class DescribeQuorumResponse:
    error_code: i16 = 0
    error_message: Annotated[str | None, since(2)] = None
    topics: list[TopicDataResponse] = field(default_factory=list)
    nodes: Annotated[list[Node], since(2)] = field(default_factory=list)
