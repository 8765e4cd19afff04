"""What Apache Kafka's metadata log says of topics and configs: its newest snapshot, then the log behind it.

The log is the folder `__cluster_metadata-0` that every KRaft broker keeps, written in the format of any log.
A snapshot is the file `<end offset>-<epoch>.checkpoint` beside the segments: the whole state below its end
offset, in batches of the same format, between a control record that begins it and one that ends it.

Rules. It is all or nothing: where a snapshot is cut off, a batch is damaged or missing, or a record cannot be
understood, `MetadataError` says where, and nothing that was read counts. Half of it could be a topic that was
compacted later. Of a transaction (KIP-868) only what was ended counts. A topic's configs go with it, so one
that was made again begins without.

Not obvious: the end of the log may hold what was never committed, if there were several controllers and this
one was cut off from them. Kafka does not write down where that begins either.
"""

import os.path
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ottla.base.config import ConfigResourceType
from ottla.base.errors import ApiError
from ottla.base.files import Files
from ottla.controller.kraft_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    MetadataError,
    MetadataRecord,
    RemoveTopicRecord,
    TopicRecord,
    parse,
)
from ottla.records.batch import BatchHeader, crc_ok, split
from ottla.records.record import Record, read_records

_SNAPSHOT = re.compile(r"(\d{20})-(\d{10})\.checkpoint\Z")
_SEGMENT = re.compile(r"(\d{20})\.log\Z")
_SNAPSHOT_FOOTER = b"\0\0\0\4"  # the key of the control record: version 0, type 4


@dataclass(slots=True)
class ClusterMetadata:
    """`topics` are ids by name, `configs` the values by type and name of their resource; `log_end_offset`
    tells whether the log has grown since somebody looked."""

    topics: dict[str, bytes] = field(default_factory=dict)
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    log_end_offset: int = 0
    _transaction: list[MetadataRecord] | None = None

    def topic_config(self, name: str) -> dict[str, str]:
        return self.configs.get((ConfigResourceType.TOPIC, name), {})

    def broker_config(self, broker: str) -> dict[str, str]:
        """Dynamic configs of a broker by its id, or those of all brokers by ''."""
        return self.configs.get((ConfigResourceType.BROKER, broker), {})

    def replay(self, record: MetadataRecord) -> None:
        match record:
            case BeginTransactionRecord():
                self._transaction = []
            case AbortTransactionRecord():
                self._transaction = None
            case EndTransactionRecord():
                ended, self._transaction = self._transaction or [], None
                for earlier in ended:
                    self.replay(earlier)
            case _ if self._transaction is not None:
                self._transaction.append(record)
            case TopicRecord(name=name, topic_id=topic_id):
                self.topics[name] = topic_id
            case RemoveTopicRecord(topic_id=topic_id):
                for name in [name for name, present_id in self.topics.items() if present_id == topic_id]:
                    del self.topics[name]
                    self.configs.pop((ConfigResourceType.TOPIC, name), None)
            case ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value):
                configs = self.configs.setdefault((kind, resource), {})
                configs.pop(name, None)
                if value is not None:
                    configs[name] = value


def read_cluster_metadata(files: Files, folder: str) -> ClusterMetadata:
    """All that the log in `folder` says. MetadataError or OSError if that cannot be known."""
    names = files.list(folder)
    snapshots = sorted(name for name in names if _SNAPSHOT.match(name))
    metadata, begin = ClusterMetadata(), 0
    if snapshots:
        begin = int(snapshots[-1].split("-")[0])
        _replay(metadata, _snapshot_records(files, os.path.join(folder, snapshots[-1])))
    _replay(metadata, _log_records(files, folder, names, begin, metadata))
    return metadata


def _replay(metadata: ClusterMetadata, records: Iterable[tuple[str, Record]]) -> None:
    for path, record in records:
        try:
            parsed = parse(record.value)
        except MetadataError as error:
            raise MetadataError(f"{path}: {error} at offset {record.offset}") from None
        if parsed is not None:
            metadata.replay(parsed)


def _snapshot_records(files: Files, path: str) -> Iterator[tuple[str, Record]]:
    is_ended = False
    for header, batch in _batches(files, path):
        if header.is_control:
            is_ended |= any(record.key == _SNAPSHOT_FOOTER for record in _records(path, batch, header))
        else:
            yield from ((path, record) for record in _records(path, batch, header))
    if not is_ended:
        raise MetadataError(f"{path}: the snapshot is cut off")


def _log_records(
    files: Files, folder: str, names: list[str], begin: int, metadata: ClusterMetadata
) -> Iterator[tuple[str, Record]]:
    """The records from offset `begin` on, without a gap."""
    bases = sorted(int(match[1]) for name in names if (match := _SEGMENT.match(name)))
    bases = [base for at, base in enumerate(bases) if at + 1 == len(bases) or bases[at + 1] > begin]
    end = bases[0] if bases else begin
    if end > begin:
        raise MetadataError(f"{folder}: the records from offset {begin} to {end} are missing")
    for base in bases:
        path = os.path.join(folder, f"{base:020}.log")
        for header, batch in _batches(files, path):
            if header.base_offset != end:
                raise MetadataError(f"{path}: offset {header.base_offset} follows where {end} should")
            end = header.next_offset
            if not header.is_control and end > begin:
                records = _records(path, batch, header)
                yield from ((path, record) for record in records if record.offset >= begin)
    metadata.log_end_offset = end


def _batches(files: Files, path: str) -> Iterator[tuple[BatchHeader, memoryview]]:
    try:
        for header, batch in split(files.read(path)):
            if not crc_ok(batch, header):
                raise MetadataError(f"{path}: the batch at offset {header.base_offset} is damaged")
            yield header, batch
    except ApiError as error:
        raise MetadataError(f"{path}: {error}") from None


def _records(path: str, batch: memoryview, header: BatchHeader) -> list[Record]:
    try:
        return read_records(batch, header)
    except ApiError as error:
        raise MetadataError(f"{path}: {error}") from None
