"""CreateTopics (key 19), versions 2 to 7.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field
from typing import Annotated

from ottla.base.ids import ZERO_UUID
from ottla.wire.schema import Uuid, i8, i16, i32, message, since, struct, tag


@struct
class CreatableReplicaAssignment:
    partition_index: i32
    broker_ids: list[i32] = field(default_factory=list)


@struct
class CreatableTopicConfig:
    name: str
    value: str | None = None


@struct
class CreatableTopic:
    name: str
    num_partitions: i32
    replication_factor: i16
    assignments: list[CreatableReplicaAssignment] = field(default_factory=list)
    configs: list[CreatableTopicConfig] = field(default_factory=list)


@message(key=19, versions=(2, 7), flexible=5)
class CreateTopicsRequest:
    topics: list[CreatableTopic] = field(default_factory=list)
    timeout_ms: i32 = 60000
    validate_only: bool = False


@struct
class CreatableTopicConfigs:
    name: str
    value: str | None = None
    read_only: bool
    config_source: i8 = -1
    is_sensitive: bool


@struct
class CreatableTopicResult:
    name: str
    topic_id: Annotated[Uuid, since(7)] = ZERO_UUID
    error_code: i16 = 0
    error_message: str | None = None
    topic_config_error_code: Annotated[i16, since(5), tag(0)] = 0
    num_partitions: Annotated[i32, since(5)] = -1
    replication_factor: Annotated[i16, since(5)] = -1
    configs: Annotated[list[CreatableTopicConfigs] | None, since(5)] = field(default_factory=list)


@message(key=19, versions=(2, 7), flexible=5)
class CreateTopicsResponse:
    throttle_time_ms: i32 = 0
    topics: list[CreatableTopicResult] = field(default_factory=list)
