"""ConsumerGroupDescribe (key 69), versions 0 to 1.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field
from typing import Annotated

from ottla.wire.schema import Uuid, i8, i16, i32, message, since, struct


@message(key=69, versions=(0, 1), flexible=0)
class ConsumerGroupDescribeRequest:
    group_ids: list[str] = field(default_factory=list)
    include_authorized_operations: bool


@struct
class TopicPartitions:
    topic_id: Uuid
    topic_name: str
    partitions: list[i32] = field(default_factory=list)


@struct
class Assignment:
    topic_partitions: list[TopicPartitions] = field(default_factory=list)


@struct
class Member:
    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: i32
    client_id: str
    client_host: str
    subscribed_topic_names: list[str] = field(default_factory=list)
    subscribed_topic_regex: str | None = None
    assignment: Assignment
    target_assignment: Assignment
    member_type: Annotated[i8, since(1)] = -1


@struct
class DescribedGroup:
    error_code: i16 = 0
    error_message: str | None = None
    group_id: str
    group_state: str
    group_epoch: i32
    assignment_epoch: i32
    assignor_name: str
    members: list[Member] = field(default_factory=list)
    authorized_operations: i32 = -2147483648


@message(key=69, versions=(0, 1), flexible=0)
class ConsumerGroupDescribeResponse:
    throttle_time_ms: i32 = 0
    groups: list[DescribedGroup] = field(default_factory=list)
