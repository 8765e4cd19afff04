"""The small files of a data directory, as `ottla dump` shows them."""

import re
from typing import Any

from ottla.base.ids import uuid_text
from ottla.cli.storage.dump_lines import Reader, show
from ottla.log import checkpoint_format, epochs, partition_metadata
from ottla.log.checkpoint_format import CHECKPOINTS
from ottla.log.config_copy import BROKER_CONFIG, TOPIC_CONFIG, parse_copy
from ottla.log.folders import META
from ottla.log.transaction_index import ENTRY
from ottla.log.verify.directory import read_properties
from ottla.log.verify.partition import enumerate_entries

_OFFSETS = re.compile(r"(\S+) (\d+) (\d+)")
_EPOCH = re.compile(r"(\d+) (\d+)")


def _offsets(path: str, _records: bool, json: bool) -> list[str]:
    names = ("topic", "partition", "offset")
    return _entries(path, json, _OFFSETS, names, "a topic, a partition and an offset")


def _epochs(path: str, _records: bool, json: bool) -> list[str]:
    return _entries(path, json, _EPOCH, ("epoch", "start_offset"), "an epoch and an offset")


def _entries(path: str, json: bool, pattern: re.Pattern[str], names: tuple[str, ...], what: str) -> list[str]:
    """Lines behind a version and a count. What can be read is shown, whatever else is wrong."""
    data = _read(path)
    if not data:
        return []
    text, problems, at = data.decode(errors="replace"), list[str](), 0
    try:
        checkpoint_format.parse_lines(text)
    except ValueError as error:
        problems.append(f"{path}: at byte 0: {error}")
    for number, line in enumerate(text.splitlines(keepends=True)):
        match = pattern.fullmatch(line.rstrip("\n"))
        if match is not None and number >= 2:
            values = (
                int(given) if given.isdigit() and name != "topic" else given
                for name, given in zip(names, match.groups(), strict=True)
            )
            show(dict(zip(names, values, strict=True)), json)
        elif number >= 2:
            problems.append(f"{path}: at byte {at}: line {number + 1} is not {what}: {line.rstrip()!r}")
        at += len(line.encode())
    return problems


def _metadata(path: str, _records: bool, json: bool) -> list[str]:
    data = _read(path)
    topic_id = partition_metadata.parse_partition_metadata(data)
    if topic_id is None:
        return [f"{path}: at byte 0 of {len(data)}: this is not version 0 and a topic id"]
    shown: dict[str, Any] = {"version": 0, "topic_id": uuid_text(topic_id)}
    show(shown | ({"configs": "none"} if partition_metadata.says_no_configs(data) else {}), json)
    return []


def _configs(path: str, _records: bool, json: bool) -> list[str]:
    data = _read(path)
    copy = parse_copy(data)
    if copy is None:
        return [f"{path}: at byte 0 of {len(data)}: this is not version 0 and configs"]
    shown = {"topic_id": uuid_text(copy.topic_id)} if copy.topic_id else {}
    show(shown | {"revision": copy.revision, "metadata_offset": copy.metadata_offset} | copy.configs, json)
    return []


def _properties(path: str, _records: bool, json: bool) -> list[str]:
    given = read_properties(_read(path))
    if not given:
        return [f"{path}: at byte 0: there is no name=value in it"]
    show(dict(given), json)
    return []


def transactions(path: str, _records: bool, json: bool) -> list[str]:
    """Aborted transactions: version, producer, first and last offset, last stable offset."""
    data = _read(path)
    for at, (version, producer_id, first, last, stable) in enumerate_entries(data):
        if version != 0:
            return [f"{path}: at byte {at}: unknown version {version}"]
        show(
            {
                "producer_id": producer_id,
                "first_offset": first,
                "last_offset": last,
                "last_stable_offset": stable,
            },
            json,
        )
    whole = len(data) - len(data) % ENTRY.size
    return [f"{path}: at byte {whole} of {len(data)}: half an entry"] if whole < len(data) else []


READERS: dict[str, Reader] = {
    **dict.fromkeys(CHECKPOINTS, _offsets),
    epochs.FILE_NAME: _epochs,
    partition_metadata.PARTITION_METADATA: _metadata,
    TOPIC_CONFIG: _configs,
    BROKER_CONFIG: _configs,
    META: _properties,
}


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
