"""ListGroups (key 16), versions 0 to 5.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field
from typing import Annotated

from ottla.wire.schema import i16, i32, message, since, struct


@message(key=16, versions=(0, 5), flexible=3)
class ListGroupsRequest:
    states_filter: Annotated[list[str], since(4)] = field(default_factory=list)
    types_filter: Annotated[list[str], since(5)] = field(default_factory=list)


@struct
class ListedGroup:
    group_id: str
    protocol_type: str
    group_state: Annotated[str, since(4)] = ""
    group_type: Annotated[str, since(5)] = ""


@message(key=16, versions=(0, 5), flexible=3)
class ListGroupsResponse:
    throttle_time_ms: Annotated[i32, since(1)] = 0
    error_code: i16 = 0
    groups: list[ListedGroup] = field(default_factory=list)
