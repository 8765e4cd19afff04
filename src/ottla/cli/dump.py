"""`ottla dump`: what is in the files of a log, for people who need to know.

Reads only, with the broker's own readers. Damage is reported with the place where it begins, and everything
before it is shown.
"""

import os
import sys
from typing import Annotated, Any, cast

import typer

from ottla.base.errors import ApiError
from ottla.base.files import File
from ottla.cli import output
from ottla.cli.errors import USAGE, CommandError
from ottla.cli.formats import Message, readable, to_json
from ottla.cli.times import show_ms
from ottla.log.index import IndexFileError, OffsetIndex, TimeIndex
from ottla.log.scan import TornError, batches
from ottla.log.snapshots import SnapshotError, decode
from ottla.records.batch import CODEC_MASK, BatchHeader, crc_ok
from ottla.records.control import control_type
from ottla.records.record import Record, read_records

CODECS = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
ANY_SIZE = 1 << 62


class ReadOnly:
    """A file opened only to be read: as much of the `File` port as scanning needs."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size = os.fstat(self._fd).st_size

    def read(self, at: int, count: int) -> bytes:
        return os.pread(self._fd, count, at)

    def close(self) -> None:
        os.close(self._fd)


def dump(
    segments: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...", help="A .log, .index, .timeindex or .snapshot file.", show_default=False
        ),
    ],
    records: Annotated[
        bool, typer.Option("--records", "-r", help="Show the records of a .log as well.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """Show what is in the files of a log: batches, records, index entries, producer states.

    Exits with 1 if a file is damaged, after showing what could be read.

    \b
    Examples:
      ottla dump data/orders-0/00000000000000000000.log
      ottla dump --records --json data/orders-0/*.log | jq .value
      ottla dump data/orders-0/*.index data/orders-0/*.snapshot
    """
    problems = []
    for path in segments:
        reader = READERS.get(os.path.splitext(path)[1])
        if reader is None:
            raise CommandError(f"{path}: dump reads {', '.join(READERS)} files", USAGE)
        if len(segments) > 1 and not json:
            print(f"{path}:")
        try:
            problems += reader(path, records, json)
        except OSError as error:
            problems.append(f"cannot read {path}: {error.strerror}")
    for problem in problems[:-1]:
        output.say(f"ottla: {problem}")
    if problems:
        raise CommandError(problems[-1])


# -- .log --------------------


def _dump_log(path: str, records: bool, json: bool) -> list[str]:
    file, problems, count, total = ReadOnly(path), list[str](), 0, 0
    topic = os.path.basename(os.path.dirname(os.path.abspath(path)))
    try:
        for position, header, view in batches(cast("File", file), 0, file.size):
            is_sound = crc_ok(view, header)
            if not is_sound:
                problems.append(f"{path}: at byte {position}: the checksum of the batch is wrong")
            count, total = count + 1, total + max(header.count, 0)
            _show(_batch(position, header, is_sound), json and not records, json)
            if records:
                try:
                    _show_records(topic, header, read_records(view, header), json)
                except ApiError as error:
                    problems.append(f"{path}: at byte {position}: {error}")
    except TornError as torn:
        problems.append(f"{path}: at byte {torn.position} of {file.size}: {torn.reason}")
    finally:
        file.close()
    if not json:
        print(f"{count} batches, {total} records, {file.size} bytes")
    return problems


def _batch(position: int, header: BatchHeader, is_sound: bool) -> dict[str, Any]:
    flags = [
        name
        for name, is_set in (
            ("transactional", header.is_transactional),
            ("control", header.is_control),
            ("log-append-time", header.is_log_append_time),
            ("delete-horizon", header.has_delete_horizon),
        )
        if is_set
    ]
    return {
        "position": position,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.count,
        "size": header.size,
        "codec": CODECS.get(header.attributes & CODEC_MASK, "unknown"),
        "max_timestamp": show_ms(header.max_timestamp),
        "leader_epoch": header.leader_epoch,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "crc": f"{header.crc:08x}",
        "crc_ok": is_sound,
        "flags": flags,
    }


def _show_records(topic: str, header: BatchHeader, records: list[Record], json: bool) -> None:
    name, _, partition = topic.rpartition("-")
    number = int(partition) if partition.isdigit() else -1
    for record in records:
        shown = to_json(
            Message(
                name, number, record.offset, record.timestamp, record.key, record.value, list(record.headers)
            )
        )
        if header.is_control:
            shown["control"] = control_type(record.key).name
        if json:
            _print_json(shown)
            continue
        parts = [f"  offset {record.offset}", show_ms(record.timestamp)]
        if header.is_control:
            parts.append(f"control {shown['control']}")
        else:
            parts += [f"key {_brief(record.key)}", f"value {_brief(record.value)}"]
        parts += [f"{key}={_brief(value)}" for key, value in record.headers]
        print(" · ".join(parts))


# -- the other files --------------------


def _dump_index(path: str, _records: bool, json: bool) -> list[str]:
    """Entries with absolute offsets, as far as the file's name tells the base."""
    log = os.path.splitext(path)[0] + ".log"
    try:
        index = OffsetIndex.from_bytes(_read(path), os.path.getsize(log) if os.path.exists(log) else ANY_SIZE)
    except IndexFileError as error:
        return [f"{path}: {error}"]
    base = _base_offset(path)
    for offset, position in zip(index.offsets, index.positions, strict=True):
        _show({"offset": base + offset, "position": position}, json, json)
    return []


def _dump_times(path: str, _records: bool, json: bool) -> list[str]:
    try:
        index = TimeIndex.from_bytes(_read(path))
    except IndexFileError as error:
        return [f"{path}: {error}"]
    base = _base_offset(path)
    for timestamp, offset in zip(index.timestamps, index.offsets, strict=True):
        _show({"timestamp": timestamp, "time": show_ms(timestamp), "offset": base + offset}, json, json)
    return []


def _dump_snapshot(path: str, _records: bool, json: bool) -> list[str]:
    try:
        producers = decode(_read(path), _base_offset(path))
    except SnapshotError as error:
        return [f"{path}: {error}"]
    for producer_id, producer in sorted(producers.by_id.items()):
        last = producer.batches[-1] if producer.batches else None
        shown = {
            "producer_id": producer_id,
            "producer_epoch": producer.epoch,
            "last_sequence": producer.last_sequence,
            "last_offset": last.last_offset if last else -1,
            "last_timestamp": show_ms(producer.last_timestamp),
            "coordinator_epoch": producer.coordinator_epoch,
            "txn_first_offset": producer.txn_first_offset,
        }
        _show(shown, json, json)
    return []


READERS = {".log": _dump_log, ".index": _dump_index, ".timeindex": _dump_times, ".snapshot": _dump_snapshot}


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _base_offset(path: str) -> int:
    name = os.path.splitext(os.path.basename(path))[0]
    return int(name) if name.isdigit() else 0


def _show(fields: dict[str, Any], as_json: bool, is_json_wanted: bool) -> None:
    """One line; with records as JSON, the batches around them are left out."""
    if as_json:
        _print_json(fields)
    elif not is_json_wanted:
        print(" · ".join(f"{name} {_text(value)}" for name, value in fields.items() if value not in ([], -1)))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return ",".join(value) if isinstance(value, list) else str(value)


def _brief(given: bytes | None, most: int = 200) -> str:
    if given is None:
        return "null"
    shown = readable(given)
    text = repr(shown) if isinstance(shown, str) else given.hex(" ")
    return text if len(text) <= most else f"{text[:most]}… ({len(given)} bytes)"


def _print_json(value: Any) -> None:
    import json

    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")
