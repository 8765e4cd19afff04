"""What a pipeline has made so far, from its files alone: tables, their rows, how far its sources are read.

Not obvious: a table written by a stream lists its files in `_spark_metadata`; a file that is not in the list
is what is left of a run that was interrupted, and is no part of the table. And the position of a source is in
the checkpoint of the flow that reads it, as the offsets of the last batch that was committed.
"""

import contextlib
import glob
import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote, urlparse

from ottla.base.command_error import CommandError
from ottla.client.librdkafka import cluster, partition_offsets
from ottla.client.librdkafka.partition_offsets import Partition
from ottla.console.pipelines import is_rejecting
from ottla.pipelines.folder import local_path

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

METADATA = "_spark_metadata"
UNFINISHED = ("_temporary", "_staged")


class Table(NamedTuple):
    name: str
    rows: int
    bytes: int
    files: int


class Source(NamedTuple):
    flow: str
    topic: str
    position: int
    end: int | None

    @property
    def lag(self) -> int | None:
        return partition_offsets.lag(self.position, self.end)


def tables(warehouse: str, counted: dict[str, tuple[int, int]] | None = None) -> list[Table]:
    """The tables below a folder. Rows are counted in the footers of the files. A file never changes, so with
    `counted` each is looked at once: rows and bytes by path."""
    folder = local_path(warehouse)
    if folder is None or not os.path.isdir(folder):
        return []
    counted = {} if counted is None else counted
    return [
        _table(entry.path, counted)
        for entry in sorted(os.scandir(folder), key=lambda entry: entry.name)
        if _is_table(entry)
    ]


def _is_table(entry: "os.DirEntry[str]") -> bool:
    return entry.is_dir() and not entry.name.startswith(("_", "."))


def _table(folder: str, counted: dict[str, tuple[int, int]]) -> Table:
    from pyarrow import ArrowException, parquet

    own = []
    for path in files(folder):
        with contextlib.suppress(OSError, ArrowException):  # replaced while we look
            if path not in counted:
                counted[path] = (parquet.read_metadata(path).num_rows, os.path.getsize(path))
            own.append(counted[path])
    return Table(
        os.path.basename(folder), sum(rows for rows, _ in own), sum(size for _, size in own), len(own)
    )


def files(folder: str) -> list[str]:
    """The files that make up a table."""
    log = os.path.join(folder, METADATA)
    if not os.path.isdir(log):
        paths = glob.glob(os.path.join(glob.escape(folder), "**", "*.parquet"), recursive=True)
        return sorted(path for path in paths if not any(f"/{name}/" in path for name in UNFINISHED))
    batches = {name.removesuffix(".compact"): name for name in sorted(os.listdir(log)) if _is_batch(name)}
    compacted = [int(number) for number, name in batches.items() if name.endswith(".compact")]
    first = max(compacted, default=0)
    paths = []
    for number in sorted(map(int, batches)):
        if number >= first:
            paths += list(_added(os.path.join(log, batches[str(number)])))
    return paths


def _is_batch(name: str) -> bool:
    return name.removesuffix(".compact").isdigit()


def _added(path: str) -> Iterator[str]:
    with open(path, encoding="utf-8") as file:
        for line in file.read().splitlines()[1:]:
            entry = json.loads(line)
            if entry.get("action") == "add":
                yield unquote(urlparse(entry["path"]).path)


def sources(storage: str, client: "AdminClient | None") -> list[Source]:
    """How far each flow has read each topic, against where the topics end."""
    folder = local_path(storage)
    if folder is None:
        return []
    read: dict[str, dict[Partition, int]] = {}
    for checkpoint in checkpoints(folder):
        read[os.path.basename(os.path.dirname(checkpoint))] = _positions(checkpoint)
    ends: dict[Partition, int] = {}
    if client is not None:
        with contextlib.suppress(CommandError):
            ends = partition_offsets.ends(
                client, {topic_partition for positions in read.values() for topic_partition in positions}
            )
    sources_read = []
    for flow, positions in read.items():
        for topic in sorted({name for name, _ in positions}):
            own = [topic_partition for topic_partition in positions if topic_partition[0] == topic]
            end = (
                sum(ends[topic_partition] for topic_partition in own)
                if all(topic_partition in ends for topic_partition in own)
                else None
            )
            sources_read.append(
                Source(flow, topic, sum(positions[topic_partition] for topic_partition in own), end)
            )
    return sources_read


def checkpoints(storage: str) -> list[str]:
    """The one of each flow that counts: `FLOW/2`. A full refresh begins a new one, and leaves the others."""
    paths = glob.glob(os.path.join(glob.escape(storage), "_checkpoints", "**", "offsets"), recursive=True)
    youngest: dict[str, int] = {}
    for path in paths:
        flow, number = os.path.split(os.path.dirname(path))
        if number.isdigit():
            youngest[flow] = max(int(number), youngest.get(flow, 0))
    return sorted(os.path.join(flow, str(number)) for flow, number in youngest.items())


def _positions(checkpoint: str) -> dict[Partition, int]:
    """Of the last batch that was committed. Sources of other kinds are passed over."""
    done = [int(name) for name in _names(os.path.join(checkpoint, "commits")) if name.isdigit()]
    if not done:
        return {}
    try:
        with open(os.path.join(checkpoint, "offsets", str(max(done))), encoding="utf-8") as file:
            lines = file.read().splitlines()[2:]
    except OSError:
        return {}
    positions: dict[Partition, int] = {}
    for line in lines:
        with contextlib.suppress(ValueError):
            positions.update(_offsets(json.loads(line)))
    return positions


class Rejected(NamedTuple):
    """A table or a topic, by its name, of what the pipeline could not use."""

    kind: str
    name: str
    records: int | None


def rejected(made: list[Table], topics: list[str], client: "AdminClient | None") -> list[Rejected]:
    rows = [Rejected("table", table.name, table.rows) for table in made if is_rejecting(table.name)]
    named = [topic for topic in topics if is_rejecting(topic)]
    return rows + [Rejected("topic", topic, _records(topic, client)) for topic in named]


def _records(topic: str, client: "AdminClient | None") -> int | None:
    """How many are there now; None if nobody says."""
    if client is None:
        return None
    with contextlib.suppress(CommandError):
        described = cluster.metadata(client).topics.get(topic)
        partitions = [(topic, number) for number in described.partitions] if described else []
        ends = partition_offsets.ends(client, partitions)
        return sum(ends.values()) - sum(partition_offsets.starts(client, partitions).values())
    return None


def _offsets(value: Any) -> dict[Partition, int]:
    if not isinstance(value, dict) or not all(isinstance(partitions, dict) for partitions in value.values()):
        return {}
    return {
        (topic, int(partition)): offset
        for topic, partitions in value.items()
        for partition, offset in partitions.items()
        if partition.isdigit() and isinstance(offset, int)
    }


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
