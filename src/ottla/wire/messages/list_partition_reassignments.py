"""ListPartitionReassignments (key 46), versions 0 to 0.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field

from ottla.wire.schema import i16, i32, message, struct


@struct
class ListPartitionReassignmentsTopics:
    name: str
    partition_indexes: list[i32] = field(default_factory=list)


@message(key=46, versions=(0, 0), flexible=0)
class ListPartitionReassignmentsRequest:
    timeout_ms: i32 = 60000
    topics: list[ListPartitionReassignmentsTopics] | None = field(default_factory=list)


@struct
class OngoingPartitionReassignment:
    partition_index: i32
    replicas: list[i32] = field(default_factory=list)
    adding_replicas: list[i32] = field(default_factory=list)
    removing_replicas: list[i32] = field(default_factory=list)


@struct
class OngoingTopicReassignment:
    name: str
    partitions: list[OngoingPartitionReassignment] = field(default_factory=list)


@message(key=46, versions=(0, 0), flexible=0)
class ListPartitionReassignmentsResponse:
    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: str | None = None
    topics: list[OngoingTopicReassignment] = field(default_factory=list)
