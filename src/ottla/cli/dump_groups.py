"""The records of `__consumer_offsets`, as `ottla dump` shows them: what they say of which group."""

import dataclasses
from typing import Any

from ottla.base.ids import uuid_text
from ottla.cli.formats import readable
from ottla.coordinator.turn import StoredRecord
from ottla.group.records import CorruptRecordError, parse
from ottla.records.record import Record

UUID_BYTES = 16
NO_TOPIC_ID = uuid_text(bytes(UUID_BYTES))


def decode_group_record(record: Record) -> tuple[dict[str, Any], str]:
    """The fields of a record, and what is wrong with it. A type that we do not know has no fields."""
    if record.key is None:
        return {}, "a record without a key"
    try:
        entry = parse(StoredRecord(record.key, record.value))
    except CorruptRecordError as error:
        return {}, str(error)
    if entry is None:
        return {"type": f"unknown ({int.from_bytes(record.key[:2], 'big')})"}, ""
    shown: dict[str, Any] = {"type": type(entry).__name__}
    return shown | {name: _plain(name, value) for name, value in entry._asdict().items()}, ""


def group_text(fields: dict[str, Any]) -> str:
    """One line of it; what says nothing is left out."""
    value = fields.get("value", {})
    names = [f"{name} {given!r}" for name, given in fields.items() if name not in ("type", "value")]
    said = "deleted"
    if value is not None:
        said = " ".join(
            f"{name}={given!r}" for name, given in value.items() if given not in (None, -1, [], NO_TOPIC_ID)
        )
    return " · ".join(part for part in (fields["type"], *names, said) if part)


def _plain(name: str, value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {each.name: _plain(each.name, getattr(value, each.name)) for each in dataclasses.fields(value)}
    if isinstance(value, list):
        return [_plain(name, each) for each in value]
    if isinstance(value, bytes):
        return uuid_text(value) if name == "topic_id" and len(value) == UUID_BYTES else readable(value)
    return value
