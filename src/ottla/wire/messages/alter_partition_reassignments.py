"""AlterPartitionReassignments (key 45), versions 0 to 1.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field
from typing import Annotated

from ottla.wire.schema import i16, i32, message, since, struct


@struct
class ReassignablePartition:
    partition_index: i32
    replicas: list[i32] | None = None


@struct
class ReassignableTopic:
    name: str
    partitions: list[ReassignablePartition] = field(default_factory=list)


@message(key=45, versions=(0, 1), flexible=0)
class AlterPartitionReassignmentsRequest:
    timeout_ms: i32 = 60000
    allow_replication_factor_change: Annotated[bool, since(1)] = True
    topics: list[ReassignableTopic] = field(default_factory=list)


@struct
class ReassignablePartitionResponse:
    partition_index: i32
    error_code: i16 = 0
    error_message: str | None = None


@struct
class ReassignableTopicResponse:
    name: str
    partitions: list[ReassignablePartitionResponse] = field(default_factory=list)


@message(key=45, versions=(0, 1), flexible=0)
class AlterPartitionReassignmentsResponse:
    throttle_time_ms: i32 = 0
    allow_replication_factor_change: Annotated[bool, since(1)] = True
    error_code: i16 = 0
    error_message: str | None = None
    responses: list[ReassignableTopicResponse] = field(default_factory=list)
