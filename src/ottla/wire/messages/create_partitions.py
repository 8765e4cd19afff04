"""CreatePartitions (key 37), versions 0 to 3.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field

from ottla.wire.schema import i16, i32, message, struct


@struct
class CreatePartitionsAssignment:
    broker_ids: list[i32] = field(default_factory=list)


@struct
class CreatePartitionsTopic:
    name: str
    count: i32
    assignments: list[CreatePartitionsAssignment] | None = field(default_factory=list)


@message(key=37, versions=(0, 3), flexible=2)
class CreatePartitionsRequest:
    topics: list[CreatePartitionsTopic] = field(default_factory=list)
    timeout_ms: i32
    validate_only: bool


@struct
class CreatePartitionsTopicResult:
    name: str
    error_code: i16 = 0
    error_message: str | None = None


@message(key=37, versions=(0, 3), flexible=2)
class CreatePartitionsResponse:
    throttle_time_ms: i32 = 0
    results: list[CreatePartitionsTopicResult] = field(default_factory=list)
