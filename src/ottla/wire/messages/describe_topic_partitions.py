"""DescribeTopicPartitions (key 75), versions 0 to 0.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field

from ottla.wire.schema import Uuid, i16, i32, message, struct


@struct
class TopicRequest:
    name: str


@struct
class Cursor:
    topic_name: str
    partition_index: i32


@message(key=75, versions=(0, 0), flexible=0)
class DescribeTopicPartitionsRequest:
    topics: list[TopicRequest] = field(default_factory=list)
    response_partition_limit: i32 = 2000
    cursor: Cursor | None = None


@struct
class DescribeTopicPartitionsResponsePartition:
    error_code: i16 = 0
    partition_index: i32
    leader_id: i32
    leader_epoch: i32 = -1
    replica_nodes: list[i32] = field(default_factory=list)
    isr_nodes: list[i32] = field(default_factory=list)
    eligible_leader_replicas: list[i32] | None = None
    last_known_elr: list[i32] | None = None
    offline_replicas: list[i32] = field(default_factory=list)


@struct
class DescribeTopicPartitionsResponseTopic:
    error_code: i16 = 0
    name: str | None = None
    topic_id: Uuid
    is_internal: bool = False
    partitions: list[DescribeTopicPartitionsResponsePartition] = field(default_factory=list)
    topic_authorized_operations: i32 = -2147483648


@struct
class CursorResponse:
    topic_name: str
    partition_index: i32


@message(key=75, versions=(0, 0), flexible=0)
class DescribeTopicPartitionsResponse:
    throttle_time_ms: i32 = 0
    topics: list[DescribeTopicPartitionsResponseTopic] = field(default_factory=list)
    next_cursor: CursorResponse | None = None
