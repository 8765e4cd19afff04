"""Heartbeat (key 12), versions 0 to 4.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from typing import Annotated

from ottla.wire.schema import i16, i32, message, since


@message(key=12, versions=(0, 4), flexible=4)
class HeartbeatRequest:
    group_id: str
    generation_id: i32
    member_id: str
    group_instance_id: Annotated[str | None, since(3)] = None


@message(key=12, versions=(0, 4), flexible=4)
class HeartbeatResponse:
    throttle_time_ms: Annotated[i32, since(1)] = 0
    error_code: i16 = 0
