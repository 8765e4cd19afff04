"""AlterPartition (key 56), versions 2 to 3.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field
from typing import Annotated

from ottla.wire.schema import Uuid, i8, i16, i32, i64, message, since, struct, until


@struct
class BrokerState:
    broker_id: i32
    broker_epoch: i64 = -1


@struct
class PartitionData:
    partition_index: i32
    leader_epoch: i32
    new_isr: Annotated[list[i32], until(2)] = field(default_factory=list)
    new_isr_with_epochs: Annotated[list[BrokerState], since(3)] = field(default_factory=list)
    leader_recovery_state: i8 = 0
    partition_epoch: i32


@struct
class TopicData:
    topic_id: Uuid
    partitions: list[PartitionData] = field(default_factory=list)


@message(key=56, versions=(2, 3), flexible=2)
class AlterPartitionRequest:
    broker_id: i32
    broker_epoch: i64 = -1
    topics: list[TopicData] = field(default_factory=list)


@struct
class PartitionDataResponse:
    partition_index: i32
    error_code: i16 = 0
    leader_id: i32
    leader_epoch: i32
    isr: list[i32] = field(default_factory=list)
    leader_recovery_state: i8 = 0
    partition_epoch: i32


@struct
class TopicDataResponse:
    topic_id: Uuid
    partitions: list[PartitionDataResponse] = field(default_factory=list)


@message(key=56, versions=(2, 3), flexible=2)
class AlterPartitionResponse:
    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    topics: list[TopicDataResponse] = field(default_factory=list)
