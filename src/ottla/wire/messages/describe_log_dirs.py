"""DescribeLogDirs (key 35), versions 1 to 5.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field
from typing import Annotated

from ottla.wire.schema import i16, i32, i64, message, since, struct


@struct
class DescribableLogDirTopic:
    topic: str
    partitions: list[i32] = field(default_factory=list)


@message(key=35, versions=(1, 5), flexible=2)
class DescribeLogDirsRequest:
    topics: list[DescribableLogDirTopic] | None = field(default_factory=list)


@struct
class DescribeLogDirsPartition:
    partition_index: i32
    partition_size: i64
    offset_lag: i64
    is_future_key: bool


@struct
class DescribeLogDirsTopic:
    name: str
    partitions: list[DescribeLogDirsPartition] = field(default_factory=list)


@struct
class DescribeLogDirsResult:
    error_code: i16 = 0
    log_dir: str
    topics: list[DescribeLogDirsTopic] = field(default_factory=list)
    total_bytes: Annotated[i64, since(4)] = -1
    usable_bytes: Annotated[i64, since(4)] = -1
    is_cordoned: Annotated[bool, since(5)] = False


@message(key=35, versions=(1, 5), flexible=2)
class DescribeLogDirsResponse:
    throttle_time_ms: i32 = 0
    error_code: Annotated[i16, since(3)] = 0
    results: list[DescribeLogDirsResult] = field(default_factory=list)
