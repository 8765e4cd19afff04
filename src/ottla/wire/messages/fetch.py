"""Fetch (key 1), versions 4 to 18.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field
from typing import Annotated

from ottla.base.ids import ZERO_UUID
from ottla.wire.schema import Records, Uuid, i8, i16, i32, i64, message, since, struct, tag, until


@struct
class ReplicaState:
    replica_id: i32 = -1
    replica_epoch: i64 = -1


@struct
class FetchPartition:
    partition: i32
    current_leader_epoch: Annotated[i32, since(9)] = -1
    fetch_offset: i64
    last_fetched_epoch: Annotated[i32, since(12)] = -1
    log_start_offset: Annotated[i64, since(5)] = -1
    partition_max_bytes: i32
    replica_directory_id: Annotated[Uuid, since(17), tag(0)] = ZERO_UUID
    high_watermark: Annotated[i64, since(18), tag(1)] = 9223372036854775807


@struct
class FetchTopic:
    topic: Annotated[str, until(12)] = ""
    topic_id: Annotated[Uuid, since(13)] = ZERO_UUID
    partitions: list[FetchPartition] = field(default_factory=list)


@struct
class ForgottenTopic:
    topic: Annotated[str, until(12)] = ""
    topic_id: Annotated[Uuid, since(13)] = ZERO_UUID
    partitions: list[i32] = field(default_factory=list)


@message(key=1, versions=(4, 18), flexible=12)
class FetchRequest:
    cluster_id: Annotated[str | None, since(12), tag(0)] = None
    replica_id: Annotated[i32, until(14)] = -1
    replica_state: Annotated[ReplicaState | None, since(15), tag(1)] = None
    max_wait_ms: i32
    min_bytes: i32
    max_bytes: i32 = 2147483647
    isolation_level: i8 = 0
    session_id: Annotated[i32, since(7)] = 0
    session_epoch: Annotated[i32, since(7)] = -1
    topics: list[FetchTopic] = field(default_factory=list)
    forgotten_topics_data: Annotated[list[ForgottenTopic], since(7)] = field(default_factory=list)
    rack_id: Annotated[str, since(11)] = ""


@struct
class EpochEndOffset:
    epoch: i32 = -1
    end_offset: i64 = -1


@struct
class LeaderIdAndEpoch:
    leader_id: i32 = -1
    leader_epoch: i32 = -1


@struct
class SnapshotId:
    end_offset: i64 = -1
    epoch: i32 = -1


@struct
class AbortedTransaction:
    producer_id: i64
    first_offset: i64


@struct
class PartitionData:
    partition_index: i32
    error_code: i16 = 0
    high_watermark: i64
    last_stable_offset: i64 = -1
    log_start_offset: Annotated[i64, since(5)] = -1
    diverging_epoch: Annotated[EpochEndOffset | None, since(12), tag(0)] = None
    current_leader: Annotated[LeaderIdAndEpoch | None, since(12), tag(1)] = None
    snapshot_id: Annotated[SnapshotId | None, since(12), tag(2)] = None
    aborted_transactions: list[AbortedTransaction] | None = field(default_factory=list)
    preferred_read_replica: Annotated[i32, since(11)] = -1
    records: Records | None = None


@struct
class FetchableTopicResponse:
    topic: Annotated[str, until(12)] = ""
    topic_id: Annotated[Uuid, since(13)] = ZERO_UUID
    partitions: list[PartitionData] = field(default_factory=list)


@struct
class NodeEndpoint:
    node_id: i32
    host: str
    port: i32
    rack: str | None = None


@message(key=1, versions=(4, 18), flexible=12)
class FetchResponse:
    throttle_time_ms: i32 = 0
    error_code: Annotated[i16, since(7)] = 0
    session_id: Annotated[i32, since(7)] = 0
    responses: list[FetchableTopicResponse] = field(default_factory=list)
    node_endpoints: Annotated[list[NodeEndpoint], since(16), tag(0)] = field(default_factory=list)
