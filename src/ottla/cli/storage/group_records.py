"""The records of `__consumer_offsets`, as `ottla dump` shows them and `ottla verify` checks them."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

from ottla.base.ids import OFFSETS_TOPIC, TopicPartition, uuid_text
from ottla.broker.journal import stored_in
from ottla.client.formats.content import readable
from ottla.coordinator.damage import Damage, Unreadable, named_by
from ottla.coordinator.records import CorruptRecordError
from ottla.coordinator.turn import StoredEnd, StoredRecord
from ottla.group.records import parse
from ottla.log.verify.findings import Finding, Findings, Severity
from ottla.records.batch import BatchHeader
from ottla.records.record import Record

UUID_BYTES = 16
NO_TOPIC_ID = uuid_text(bytes(UUID_BYTES))


class GroupRecords:
    """Finds what would keep a broker from serving the groups of a partition (`coordinator/damage`)."""

    def __init__(self, topic_partition: TopicPartition) -> None:
        self._topic_partition = topic_partition
        self._damage = Damage()
        self._paths: dict[int, str] = {}

    @classmethod
    def of(cls, topic_partition: TopicPartition) -> "GroupRecords | None":
        return cls(topic_partition) if topic_partition.topic == OFFSETS_TOPIC else None

    def on_batch(self, path: str, header: BatchHeader, batch: memoryview) -> None:
        for stored in stored_in(header, batch):
            match stored:
                case StoredEnd():
                    self._damage.on_end(stored, lambda: None)
                case (StoredRecord() as record, int(offset), _):
                    _, problem = decode_group_record(record)
                    if problem:
                        self._paths[offset] = path
                    self._damage.on_record(record, offset, partial(_or_none, problem))

    def on_damage(self, path: str, offset: int, problem: str) -> None:
        self._paths[offset] = path
        self._damage.on_batch(Unreadable(offset, problem))

    def findings(self) -> Findings:
        for offset, problem in self._damage.left():
            remedy = f"`ottla skip {self._topic_partition} {offset}` leaves it out"
            fate = f"the groups stored in this partition are not served; {remedy}"
            yield Finding(Severity.ERROR, self._paths[offset], problem, fate, None, offset)
        for offset, problem in self._damage.left_out():
            yield Finding(
                Severity.NOTE, self._paths[offset], problem, "it is left out, as was said", None, offset
            )


def _or_none(problem: str) -> str | None:
    return problem or None


def decode_group_record(record: Record | StoredRecord) -> tuple[dict[str, Any], str]:
    """The fields of a record, and what is wrong with it. A type that we do not know has no fields."""
    return decode_record(record, parse)


def decode_record(
    record: Record | StoredRecord, parse: Callable[[StoredRecord], Any]
) -> tuple[dict[str, Any], str]:
    """The same for the records of any coordinator, given how an entry is read."""
    if record.key is None:
        return {}, "a record without a key"
    named = named_by(StoredRecord(record.key, record.value))
    if named is not None:
        return {"type": "LeaveOut", "offset": named}, ""
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
        return {part.name: _plain(part.name, getattr(value, part.name)) for part in dataclasses.fields(value)}
    if isinstance(value, list):
        return [_plain(name, part) for part in value]
    if isinstance(value, bytes):
        return uuid_text(value) if name == "topic_id" and len(value) == UUID_BYTES else readable(value)
    return value
