"""Kafka's small files of a log directory: checkpoints of offsets per partition, the clean-shutdown marker.

A checkpoint is lines: the version 0, the number of entries, then "topic partition offset" each. A file that
does not read as one is treated as absent, and its problem is reported: what it would have said is found out
the slow way.

Not obvious: some are replaced without a sync, so a power cut can leave any beginning of one. The newline
behind the last entry is what tells "10" from the half of it that is "1".
"""

import json
from collections.abc import Mapping

from ottla.base.files import Files
from ottla.base.ids import TopicPartition

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
CLEANER_OFFSETS = "cleaner-offset-checkpoint"
CHECKPOINTS = (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS, CLEANER_OFFSETS)
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"


class CheckpointError(ValueError):
    """A checkpoint file that cannot be read; the message names it."""


def read_offsets(files: Files, path: str) -> dict[TopicPartition, int]:
    """The offsets in a checkpoint; none if the file does not exist."""
    if not files.exists(path):
        return {}
    try:
        return parse_offsets(files.read(path).decode())
    except ValueError as error:
        raise CheckpointError(f"{path}: {error}") from None


def parse_offsets(text: str) -> dict[TopicPartition, int]:
    offsets = {}
    for line in parse_lines(text):
        topic, partition, offset = line.split(" ")
        if int(offset) < 0:
            raise ValueError(f"negative offset in {line!r}")
        offsets[TopicPartition(topic, int(partition))] = int(offset)
    return offsets


def format_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    return format_lines(
        [f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items())]
    )


def parse_lines(text: str) -> list[str]:
    """The entries of any file that begins with version 0 and a count. Kafka makes such files empty first."""
    if not text:
        return []
    lines = text.splitlines()
    if len(lines) < 2:
        raise ValueError("the file ends before its entries")
    if not text.endswith("\n"):
        raise ValueError(f"the file ends in the middle of {lines[-1]!r}")
    if int(lines[0]) != 0:
        raise ValueError(f"unknown version {lines[0]}")
    if int(lines[1]) != len(lines) - 2:
        raise ValueError(f"{lines[1]} entries announced, {len(lines) - 2} found")
    return lines[2:]


def format_lines(lines: list[str]) -> bytes:
    return "\n".join(["0", str(len(lines)), *lines, ""]).encode()


def clean_shutdown_marker() -> bytes:
    return json.dumps({"version": 0, "brokerEpoch": "-1"}, separators=(",", ":")).encode()
