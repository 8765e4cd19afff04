"""`ottla dump`: what is in the files of a log, for people who need to know.

Reads only, with the broker's own readers. Damage is reported with the place where it begins, and everything
before it is shown.
"""

import os
from typing import Annotated, Any

import typer

from ottla.base.command_error import USAGE, CommandError
from ottla.base.errors import ApiError
from ottla.base.ids import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ottla.cli import output
from ottla.cli.storage import text_files
from ottla.cli.storage.dump_lines import Reader, brief, print_json, show
from ottla.cli.storage.group_records import decode_group_record, group_text
from ottla.cli.storage.read_only_files import ReadOnlyFiles
from ottla.cli.storage.transaction_records import decode_transaction_record
from ottla.cli.times import show_ms
from ottla.client.formats import Message, json_lines
from ottla.log.index import SWAP, IndexFileError, OffsetIndex, TimeIndex
from ottla.log.recovery import CLEANED, DELETED
from ottla.log.scan import TornError, batches
from ottla.log.snapshots import SnapshotError, decode
from ottla.log.verify.segment import index_damage
from ottla.records.batch import CODEC_MASK, BatchHeader, crc_ok
from ottla.records.compression import CODEC_NAMES
from ottla.records.control import control_type
from ottla.records.record import Record, read_records

ANY_SIZE = 1 << 62
DECODERS = {OFFSETS_TOPIC: decode_group_record, TRANSACTIONS_TOPIC: decode_transaction_record}
SET_ASIDE = (DELETED, CLEANED, SWAP)


def dump(
    segments: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...", help="A segment, index, snapshot or checkpoint.", show_default=False
        ),
    ],
    records: Annotated[
        bool, typer.Option("--records", "-r", help="Show the records of a .log as well.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """Show what is in the files of a data directory.

    Segments (.log) as batches and, with --records, records; those of __consumer_offsets and
    __transaction_state say what they mean. Offset and time indexes, aborted transactions (.txnindex),
    producer snapshots, checkpoints, leader epochs, partition.metadata, topic.config and meta.properties
    as one line per entry.

    What is in the folder of a deleted partition (-delete) is shown if nothing else is named.

    Exits with 1 if a file is damaged, after showing what could be read.

    \b
    Examples:
      ottla dump data/orders-0/00000000000000000000.log
      ottla dump --records --json data/orders-0/*.log | jq .value
      ottla dump --records data/__consumer_offsets-*/*.log
      ottla dump data/orders-0/*.index data/orders-0/*.snapshot data/*-checkpoint
    """
    problems = list[str]()
    kept = [path for path in segments if not _folder(path).endswith("-delete")]
    if 0 < len(kept) < len(segments):
        skipped = output.plural(len(segments) - len(kept), "file")
        output.say(f"{skipped} of deleted partitions left out; name only those to see them")
        segments = kept
    for path in segments:
        reader = _reader(path)
        if len(segments) > 1 and not json:
            print(f"{path}:")
        try:
            problems += reader(path, records, json)
        except OSError as error:
            if output.is_of_writing(error):
                raise  # which is no problem of the file
            problems.append(f"cannot read {path}: {error.strerror}")
    for problem in problems[:-1]:
        output.say(f"ottla: {problem}")
    if problems:
        raise CommandError(problems[-1])


def _folder(path: str) -> str:
    return os.path.basename(os.path.dirname(os.path.abspath(path)))


# -- .log --------------------


def _dump_log(path: str, records: bool, json: bool) -> list[str]:
    file, problems, count, total = ReadOnlyFiles().open(path), list[str](), 0, 0
    folder = _folder(path)
    try:
        for position, header, view in batches(file, 0, file.size):
            is_sound = crc_ok(view, header)
            if not is_sound:
                problems.append(f"{path}: at byte {position}: the checksum of the batch is wrong")
            count, total = count + 1, total + max(header.count, 0)
            if not (json and records):
                show(_batch(position, header, is_sound), json)
            if records:
                try:
                    wrong = _show_records(folder, header, read_records(view, header), json)
                except ApiError as error:
                    wrong = [str(error)]
                problems += [f"{path}: at byte {position}: {problem}" for problem in wrong]
    except TornError as torn:
        problems.append(f"{path}: at byte {torn.position} of {file.size}: {torn.reason}")
    finally:
        file.close()
    if not json:
        counted = ((count, "batch"), (total, "record"), (file.size, "byte"))
        print(", ".join(output.plural(*pair) for pair in counted))
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
    codec = header.attributes & CODEC_MASK
    return {
        "position": position,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.count,
        "size": header.size,
        "codec": CODEC_NAMES[codec] if codec < len(CODEC_NAMES) else "unknown",
        "max_timestamp": show_ms(header.max_timestamp),
        "leader_epoch": header.leader_epoch,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "crc": f"{header.crc:08x}",
        "crc_ok": is_sound,
        "flags": flags,
    }


def _show_records(folder: str, header: BatchHeader, records: list[Record], json: bool) -> list[str]:
    """Show the records of a batch; what is wrong with those that have a meaning for the broker."""
    name, _, partition = folder.rpartition("-")
    number = int(partition) if partition.isdigit() else -1
    problems = []
    for record in records:
        message = Message(
            name, number, record.offset, record.timestamp, record.key, record.value, list(record.headers)
        )
        decoded: dict[str, Any] = {}
        if header.is_control:
            decoded = {"control": control_type(record.key).name}
        elif name in DECODERS:
            fields, problem = DECODERS[name](record)
            decoded = {"decoded": fields} if fields else {}
            if problem:
                problems.append(f"offset {record.offset}: {problem}")
        if json:
            print_json(json_lines.to_json(message) | decoded)
        else:
            print(_record_line(record, decoded))
    return problems


def _record_line(record: Record, decoded: dict[str, Any]) -> str:
    parts = [f"  offset {record.offset}", show_ms(record.timestamp)]
    if "control" in decoded:
        parts.append(f"control {decoded['control']}")
    elif "decoded" in decoded:
        parts.append(group_text(decoded["decoded"]))
    else:
        parts += [f"key {brief(record.key)}", f"value {brief(record.value)}"]
    return " · ".join(parts + [f"{key}={brief(value)}" for key, value in record.headers])


# -- the other files --------------------


def _dump_index(path: str, _records: bool, json: bool) -> list[str]:
    """Entries with absolute offsets, as far as the file's name tells the base."""
    log, data = os.path.splitext(path)[0] + ".log", _read(path)
    log_size = os.path.getsize(log) if os.path.exists(log) else ANY_SIZE
    try:
        index = OffsetIndex.from_bytes(data, log_size)
    except IndexFileError as error:
        return [f"{path}: at byte {index_damage(data, '.index', log_size)}: {error}"]
    base = _base_offset(path)
    for offset, position in zip(index.offsets, index.positions, strict=True):
        show({"offset": base + offset, "position": position}, json)
    return []


def _dump_times(path: str, _records: bool, json: bool) -> list[str]:
    data = _read(path)
    try:
        index = TimeIndex.from_bytes(data)
    except IndexFileError as error:
        return [f"{path}: at byte {index_damage(data, '.timeindex', ANY_SIZE)}: {error}"]
    base = _base_offset(path)
    for timestamp, offset in zip(index.timestamps, index.offsets, strict=True):
        show({"timestamp": timestamp, "time": show_ms(timestamp), "offset": base + offset}, json)
    return []


def _dump_snapshot(path: str, _records: bool, json: bool) -> list[str]:
    data = _read(path)
    try:
        producers = decode(data, _base_offset(path))
    except SnapshotError as error:
        return [f"{path}: at byte 0 of {len(data)}: {error}"]
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
        show(shown, json)
    return []


READERS: dict[str, Reader] = {
    ".log": _dump_log,
    ".index": _dump_index,
    ".timeindex": _dump_times,
    ".snapshot": _dump_snapshot,
    ".txnindex": text_files.transactions,
    ".checkpoint": _dump_log,  # KRaft's snapshots are batches
}


def _reader(path: str) -> Reader:
    """By the file's name, also while it is set aside by a compaction or for its deletion."""
    name = os.path.basename(path)
    for suffix in SET_ASIDE:
        name = name.removesuffix(suffix)
    reader = text_files.READERS.get(name) or READERS.get(os.path.splitext(name)[1])
    if reader is None:
        names = ", ".join([*READERS, *text_files.READERS])
        raise CommandError(f"{path}: dump reads {names} files", USAGE)
    return reader


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _base_offset(path: str) -> int:
    name = os.path.basename(path).split(".", 1)[0]
    return int(name) if name.isdigit() else 0
