"""Metadata (key 3), versions 0 to 13.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field
from typing import Annotated

from ottla.base.ids import ZERO_UUID
from ottla.wire.schema import Uuid, i16, i32, message, nullable, since, struct, until


@struct
class MetadataRequestTopic:
    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    name: Annotated[str | None, nullable(10)]


@message(key=3, versions=(0, 13), flexible=9)
class MetadataRequest:
    topics: Annotated[list[MetadataRequestTopic] | None, nullable(1)] = field(default_factory=list)
    allow_auto_topic_creation: Annotated[bool, since(4)] = True
    include_cluster_authorized_operations: Annotated[bool, since(8), until(10)] = False
    include_topic_authorized_operations: Annotated[bool, since(8)] = False


@struct
class MetadataResponseBroker:
    node_id: i32
    host: str
    port: i32
    rack: Annotated[str | None, since(1)] = None


@struct
class MetadataResponsePartition:
    error_code: i16 = 0
    partition_index: i32
    leader_id: i32
    leader_epoch: Annotated[i32, since(7)] = -1
    replica_nodes: list[i32] = field(default_factory=list)
    isr_nodes: list[i32] = field(default_factory=list)
    offline_replicas: Annotated[list[i32], since(5)] = field(default_factory=list)


@struct
class MetadataResponseTopic:
    error_code: i16 = 0
    name: Annotated[str | None, nullable(12)]
    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    is_internal: Annotated[bool, since(1)] = False
    partitions: list[MetadataResponsePartition] = field(default_factory=list)
    topic_authorized_operations: Annotated[i32, since(8)] = -2147483648


@message(key=3, versions=(0, 13), flexible=9)
class MetadataResponse:
    throttle_time_ms: Annotated[i32, since(3)] = 0
    brokers: list[MetadataResponseBroker] = field(default_factory=list)
    cluster_id: Annotated[str | None, since(2)] = None
    controller_id: Annotated[i32, since(1)] = -1
    topics: list[MetadataResponseTopic] = field(default_factory=list)
    cluster_authorized_operations: Annotated[i32, since(8), until(10)] = -2147483648
    error_code: Annotated[i16, since(13)] = 0
