"""Builds metadata logs as Apache Kafka's controllers write them."""

import os.path
from collections.abc import Sequence

from tests.log.simdisk import SimDisk

from ottla.controller.kraft_records import ConfigRecord, MetadataRecord, TopicRecord, store
from ottla.records.builder import NewRecord, build_batch

TIME_MS = 1_700_000_000_000
HEADER_KEY, FOOTER_KEY, LEADER_CHANGE_KEY = b"\0\0\0\3", b"\0\0\0\4", b"\0\0\0\2"
NO_OP = b"\1\x14\0\0"  # type 20: something that nobody here is interested in

Value = MetadataRecord | bytes


def topic(name: str, topic_id: bytes) -> TopicRecord:
    return TopicRecord(name=name, topic_id=topic_id)


def config(topic_name: str, key: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=2, resource_name=topic_name, name=key, value=value)


def broker_config(broker: str, key: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=4, resource_name=broker, name=key, value=value)


def batch(values: Sequence[Value], base_offset: int = 0) -> bytes:
    stored = [one if isinstance(one, bytes) else store(one) for one in values]
    records = [NewRecord(None, value, (), TIME_MS) for value in stored]
    return bytes(build_batch(records, base_offset=base_offset, leader_epoch=1))


def control(key: bytes, base_offset: int = 0) -> bytes:
    records = [NewRecord(key, b"\0\0", (), TIME_MS)]
    return bytes(build_batch(records, base_offset=base_offset, leader_epoch=1, control=True))


def write_segment(disk: SimDisk, folder: str, *batches: bytes, base_offset: int = 0) -> str:
    return _write(disk, folder, f"{base_offset:020}.log", b"".join(batches))


def write_log(disk: SimDisk, folder: str, *values: Value, base_offset: int = 0) -> str:
    """A segment: a change of leader, then a batch for each record."""
    batches = [batch([value], base_offset + 1 + at) for at, value in enumerate(values)]
    first = control(LEADER_CHANGE_KEY, base_offset)
    return write_segment(disk, folder, first, *batches, base_offset=base_offset)


def write_snapshot(disk: SimDisk, folder: str, end_offset: int, *values: Value, footer: bool = True) -> str:
    """The state below `end_offset`."""
    parts = [control(HEADER_KEY), *([batch(values, 1)] if values else [])]
    parts += [control(FOOTER_KEY, len(values) + 1)] if footer else []
    return _write(disk, folder, f"{end_offset:020}-{1:010}.checkpoint", b"".join(parts))


def _write(disk: SimDisk, folder: str, name: str, data: bytes) -> str:
    disk.make_directory(folder)
    path = os.path.join(folder, name)
    disk.write_atomic(path, data)
    return path
