"""DeleteTopics (key 20), versions 1 to 6.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field
from typing import Annotated

from ottla.base.ids import ZERO_UUID
from ottla.wire.schema import Uuid, i16, i32, message, nullable, since, struct, until


@struct
class DeleteTopicState:
    name: str | None = None
    topic_id: Uuid


@message(key=20, versions=(1, 6), flexible=4)
class DeleteTopicsRequest:
    topic_names: Annotated[list[str], until(5)] = field(default_factory=list)
    topics: Annotated[list[DeleteTopicState], since(6)] = field(default_factory=list)
    timeout_ms: i32


@struct
class DeletableTopicResult:
    name: Annotated[str | None, nullable(6)]
    topic_id: Annotated[Uuid, since(6)] = ZERO_UUID
    error_code: i16 = 0
    error_message: Annotated[str | None, since(5)] = None


@message(key=20, versions=(1, 6), flexible=4)
class DeleteTopicsResponse:
    throttle_time_ms: i32 = 0
    responses: list[DeletableTopicResult] = field(default_factory=list)
