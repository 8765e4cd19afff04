"""ConsumerGroupHeartbeat (key 68), versions 0 to 1.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field
from typing import Annotated

from ottla.wire.schema import Uuid, i16, i32, message, since, struct


@struct
class TopicPartitions:
    topic_id: Uuid
    partitions: list[i32] = field(default_factory=list)


@message(key=68, versions=(0, 1), flexible=0)
class ConsumerGroupHeartbeatRequest:
    group_id: str
    member_id: str
    member_epoch: i32
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: i32 = -1
    subscribed_topic_names: list[str] | None = None
    subscribed_topic_regex: Annotated[str | None, since(1)] = None
    server_assignor: str | None = None
    topic_partitions: list[TopicPartitions] | None = field(default_factory=list)


@struct
class TopicPartitionsResponse:
    topic_id: Uuid
    partitions: list[i32] = field(default_factory=list)


@struct
class Assignment:
    topic_partitions: list[TopicPartitionsResponse] = field(default_factory=list)


@message(key=68, versions=(0, 1), flexible=0)
class ConsumerGroupHeartbeatResponse:
    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: i32
    heartbeat_interval_ms: i32
    assignment: Assignment | None = None
