"""AlterReplicaLogDirs (key 34), versions 1 to 2.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field

from ottla.wire.schema import i16, i32, message, struct


@struct
class AlterReplicaLogDirTopic:
    name: str
    partitions: list[i32] = field(default_factory=list)


@struct
class AlterReplicaLogDir:
    path: str
    topics: list[AlterReplicaLogDirTopic] = field(default_factory=list)


@message(key=34, versions=(1, 2), flexible=2)
class AlterReplicaLogDirsRequest:
    dirs: list[AlterReplicaLogDir] = field(default_factory=list)


@struct
class AlterReplicaLogDirPartitionResult:
    partition_index: i32
    error_code: i16 = 0


@struct
class AlterReplicaLogDirTopicResult:
    topic_name: str
    partitions: list[AlterReplicaLogDirPartitionResult] = field(default_factory=list)


@message(key=34, versions=(1, 2), flexible=2)
class AlterReplicaLogDirsResponse:
    throttle_time_ms: i32 = 0
    results: list[AlterReplicaLogDirTopicResult] = field(default_factory=list)
