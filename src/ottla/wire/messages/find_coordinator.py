"""FindCoordinator (key 10), versions 0 to 6.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field
from typing import Annotated

from ottla.wire.schema import i8, i16, i32, message, since, struct, until


@message(key=10, versions=(0, 6), flexible=3)
class FindCoordinatorRequest:
    key: Annotated[str, until(3)] = ""
    key_type: Annotated[i8, since(1)] = 0
    coordinator_keys: Annotated[list[str], since(4)] = field(default_factory=list)


@struct
class Coordinator:
    key: str
    node_id: i32
    host: str
    port: i32
    error_code: i16 = 0
    error_message: str | None = None


@message(key=10, versions=(0, 6), flexible=3)
class FindCoordinatorResponse:
    throttle_time_ms: Annotated[i32, since(1)] = 0
    error_code: Annotated[i16, until(3)] = 0
    error_message: Annotated[str | None, since(1), until(3)] = None
    node_id: Annotated[i32, until(3)] = 0
    host: Annotated[str, until(3)] = ""
    port: Annotated[i32, until(3)] = 0
    coordinators: Annotated[list[Coordinator], since(4)] = field(default_factory=list)
