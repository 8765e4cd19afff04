"""AlterClientQuotas (key 49), versions 0 to 1.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field

from ottla.wire.schema import f64, i16, i32, message, struct


@struct
class EntityData:
    entity_type: str
    entity_name: str | None = None


@struct
class OpData:
    key: str
    value: f64
    remove: bool


@struct
class EntryData:
    entity: list[EntityData] = field(default_factory=list)
    ops: list[OpData] = field(default_factory=list)


@message(key=49, versions=(0, 1), flexible=1)
class AlterClientQuotasRequest:
    entries: list[EntryData] = field(default_factory=list)
    validate_only: bool


@struct
class EntityDataResponse:
    entity_type: str
    entity_name: str | None = None


@struct
class EntryDataResponse:
    error_code: i16 = 0
    error_message: str | None = None
    entity: list[EntityDataResponse] = field(default_factory=list)


@message(key=49, versions=(0, 1), flexible=1)
class AlterClientQuotasResponse:
    throttle_time_ms: i32 = 0
    entries: list[EntryDataResponse] = field(default_factory=list)
