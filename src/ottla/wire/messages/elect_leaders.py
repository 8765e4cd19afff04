"""ElectLeaders (key 43), versions 0 to 2.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field
from typing import Annotated

from ottla.wire.schema import i8, i16, i32, message, since, struct


@struct
class TopicPartitions:
    topic: str
    partitions: list[i32] = field(default_factory=list)


@message(key=43, versions=(0, 2), flexible=2)
class ElectLeadersRequest:
    election_type: Annotated[i8, since(1)] = 0
    topic_partitions: list[TopicPartitions] | None = field(default_factory=list)
    timeout_ms: i32 = 60000


@struct
class PartitionResult:
    partition_id: i32
    error_code: i16 = 0
    error_message: str | None = None


@struct
class ReplicaElectionResult:
    topic: str
    partition_result: list[PartitionResult] = field(default_factory=list)


@message(key=43, versions=(0, 2), flexible=2)
class ElectLeadersResponse:
    throttle_time_ms: i32 = 0
    error_code: Annotated[i16, since(1)] = 0
    replica_election_results: list[ReplicaElectionResult] = field(default_factory=list)
