"""DeleteGroups (key 42), versions 0 to 2.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field

from ottla.wire.schema import i16, i32, message, struct


@message(key=42, versions=(0, 2), flexible=2)
class DeleteGroupsRequest:
    groups_names: list[str] = field(default_factory=list)


@struct
class DeletableGroupResult:
    group_id: str
    error_code: i16 = 0


@message(key=42, versions=(0, 2), flexible=2)
class DeleteGroupsResponse:
    throttle_time_ms: i32 = 0
    results: list[DeletableGroupResult] = field(default_factory=list)
