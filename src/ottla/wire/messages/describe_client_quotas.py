"""DescribeClientQuotas (key 48), versions 0 to 1.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field

from ottla.wire.schema import f64, i8, i16, i32, message, struct


@struct
class ComponentData:
    entity_type: str
    match_type: i8
    match: str | None = None


@message(key=48, versions=(0, 1), flexible=1)
class DescribeClientQuotasRequest:
    components: list[ComponentData] = field(default_factory=list)
    strict: bool


@struct
class EntityData:
    entity_type: str
    entity_name: str | None = None


@struct
class ValueData:
    key: str
    value: f64


@struct
class EntryData:
    entity: list[EntityData] = field(default_factory=list)
    values: list[ValueData] = field(default_factory=list)


@message(key=48, versions=(0, 1), flexible=1)
class DescribeClientQuotasResponse:
    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: str | None = None
    entries: list[EntryData] | None = field(default_factory=list)
