"""Logs that the keeper knows nothing of: those of a folder that was brought here, those of deleted topics.

A new keeper over a folder with logs: somebody brought them from Apache Kafka, or from a broker that had its
topics in ZooKeeper, or lost keeper.db. Their topics are made known (`adopted_topics`), with the configs that
are found beside them (design note 006). In this order, the first that knows the topic by its id counts:

    topic.config         in the folders of its partitions; of several the newest, if that is one
    __cluster_metadata   Apache Kafka's own; before topic.config, if Kafka has written to it since
    what is well known   of internal topics

A topic that none of them knows may be one that was never to lose a record, so none is taken from it: its
cleanup.policy is set to nothing, which is legal, shown by every tool, and stays until somebody sets another.

A keeper that is not new knows all topics there are: any other log is of a topic that was deleted, or of a
partition that was moved away, while this broker was not there to see it (`remove_strays`).
"""

import os.path
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.base.config import ConfigError, Row, rows_by_topic_key
from ottla.base.files import FOLDER, UnfitFileError
from ottla.base.ids import KRAFT_TOPIC, OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition, is_topic_name
from ottla.broker.config_classes import broker_rows
from ottla.broker.ports import Random
from ottla.controller import znodes
from ottla.controller.image import Image
from ottla.controller.keeper import Create, Operation
from ottla.controller.topics import PlannedTopic, plan_configs, plan_reelection
from ottla.log.config import LogConfig
from ottla.log.config_copy import ConfigCopy, read_broker_copy, read_topic_copy
from ottla.log.directories import DirectoryFiles
from ottla.log.folders import parse_folder
from ottla.log.partition_metadata import read_topic_id
from ottla.log.store import LogStore

if TYPE_CHECKING:
    from ottla.controller.kraft_log import ClusterMetadata

Configs = Mapping[str, str]

POLICY = "cleanup.policy"
UNTOUCHED = {POLICY: ""}
_COMPACTED = {POLICY: "compact", "segment.bytes": str(100 << 20)}
WELL_KNOWN = {OFFSETS_TOPIC: _COMPACTED, TRANSACTIONS_TOPIC: _COMPACTED}
_DECIDING = frozenset(
    {
        "log.cleanup.policy",
        "log.retention.ms",
        "log.retention.bytes",
        "log.cleaner.delete.retention.ms",
        "log.cleaner.min.compaction.lag.ms",
    }
)
_NAMES_MAX = 10


@dataclass(slots=True)
class _Folders:
    """The folders of one topic: ids and copies by partition."""

    ids: dict[int, bytes | None] = field(default_factory=dict)
    copies: list[ConfigCopy] = field(default_factory=list)

    def look(self, disk: DirectoryFiles, path: str, partition: int) -> None:
        self.ids[partition] = None
        with suppress(OSError):
            topic_id = read_topic_id(disk, path)
            copy = read_topic_copy(disk, path, topic_id)
            self.ids[partition] = topic_id or (copy.topic_id if copy else None)
            self.copies += [copy] if copy else []

    @property
    def topic_id(self) -> bytes | None:
        """That of the first partition that has one: Kafka gives it to a partition with its first record."""
        return next((topic_id for _, topic_id in sorted(self.ids.items()) if topic_id is not None), None)

    def newest(self, topic_id: bytes | None) -> list[ConfigCopy]:
        """Of the copies for this id, those with the highest revision."""
        copies = [copy for copy in self.copies if copy.topic_id == topic_id]
        revision = max((copy.revision for copy in copies), default=0)
        return [copy for copy in copies if copy.revision == revision]


@dataclass(slots=True)
class Adoption:
    """What folders say of topics and brokers when no keeper does. `lines` is what an operator should read."""

    topic_ids: dict[str, bytes | None] = field(default_factory=dict)
    topic_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    broker_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    _metadata: "ClusterMetadata | None" = None

    @classmethod
    def look(cls, disks: Mapping[str, DirectoryFiles], broker_id: int) -> "Adoption":
        """Read what is there and change nothing. What cannot be read counts as absent; it is for the opening
        of a directory to say that it cannot be used."""
        adoption, topics, copies = cls(), dict[str, _Folders](), list[ConfigCopy]()
        for directory, disk in disks.items():
            with suppress(OSError):
                adoption._look(disk, directory, topics, copies)
        adoption._decide(topics)
        adoption._decide_for_brokers(copies, broker_id)
        return adoption

    def topic_config(self, topic: str) -> dict[str, str]:
        return self.topic_configs.get(topic, UNTOUCHED if _is_topic(topic) else {})

    def broker_config(self, broker: str) -> dict[str, str]:
        return self.broker_configs.get(broker, {})

    # What is there

    def _look(
        self, disk: DirectoryFiles, directory: str, topics: dict[str, _Folders], copies: list[ConfigCopy]
    ) -> None:
        for name in sorted(name for name, kind in disk.kinds(directory).items() if kind == FOLDER):
            topic_partition, path = parse_folder(name), os.path.join(directory, name)
            if topic_partition is None:
                continue
            if topic_partition.topic == KRAFT_TOPIC:
                self._read_metadata(disk, path)
            elif _is_topic(topic_partition.topic):
                topics.setdefault(topic_partition.topic, _Folders()).look(
                    disk, path, topic_partition.partition
                )
        copy = read_broker_copy(disk, directory)
        if copy is not None:
            copies.append(copy)

    def _read_metadata(self, disk: DirectoryFiles, path: str) -> None:
        from ottla.controller.kraft_log import (
            read_cluster_metadata,  # only a folder of Kafka's has a use for it
        )
        from ottla.controller.kraft_records import MetadataError

        try:
            self._metadata = read_cluster_metadata(disk, path)
        except (MetadataError, OSError) as error:
            self.lines.append(
                f"Apache Kafka's metadata log cannot be read, and no configs are taken from it: {error}; "
                "to have them, let Apache Kafka start and stop over this folder once, and delete keeper.db"
            )

    def _is_outdated(self, copy: ConfigCopy) -> bool:
        """Apache Kafka has been at work since this copy was made."""
        return self._metadata is not None and self._metadata.log_end_offset > copy.metadata_offset

    # What that means

    def _decide(self, topics: dict[str, _Folders]) -> None:
        taken_from_kafka = 0
        for name, folders in sorted(topics.items()):
            metadata, topic_id = self._metadata, folders.topic_id
            in_kafka = metadata is not None and name in metadata.topics
            if metadata is not None and in_kafka and topic_id is None:
                topic_id = metadata.topics[name]
            self.topic_ids[name] = topic_id
            newest = folders.newest(topic_id)
            if (
                metadata is not None
                and in_kafka
                and metadata.topics[name] == topic_id
                and all(map(self._is_outdated, newest))
            ):
                configs: Configs = metadata.topic_config(name)
                taken_from_kafka += 1
            elif newest and all(copy.configs == newest[0].configs for copy in newest):
                configs = newest[0].configs
            else:
                configs = WELL_KNOWN.get(name, UNTOUCHED)
            self.topic_configs[name] = self._usable(name, configs)
        if taken_from_kafka:
            self.lines.append(
                f"topics whose configs are those in Apache Kafka's metadata log: {taken_from_kafka}; what "
                "Kafka's server.properties says of retention must be given to this broker too: --config FILE"
            )

    def _usable(self, topic: str, configs: Configs) -> dict[str, str]:
        """The configs that exist here, with legal values. An illegal value must not get records deleted."""
        rows, usable, is_certain = rows_by_topic_key(LogConfig), dict[str, str](), True
        for name, value in configs.items():
            if name in rows and _is_legal(rows[name], name, value):
                usable[name] = value
            else:
                is_certain &= name not in rows
                self.lines.append(f"{name}={value} of topic {topic} is not known here, and is left out")
        return usable if is_certain else usable | UNTOUCHED

    def _decide_for_brokers(self, copies: list[ConfigCopy], broker_id: int) -> None:
        """Of what Kafka has set for its brokers, only what decides about records: the rest was for Kafka."""
        newest = max(copies, key=lambda copy: copy.revision, default=None)
        for broker in ("", str(broker_id)):
            configs: Configs = {}
            if newest is not None and not self._is_outdated(newest):
                configs = newest.configs.get(broker, {})
            elif self._metadata is not None:
                asked = self._metadata.broker_config(broker).items()
                configs = {name: value for name, value in asked if name in _DECIDING}
            usable = {
                row.name: configs[row.name]
                for row in broker_rows()
                if row.dynamic and row.name in configs and _is_legal(row, row.name, configs[row.name])
            }
            if usable:
                self.broker_configs[broker] = usable


def _is_topic(name: str) -> bool:
    return name != KRAFT_TOPIC and is_topic_name(name)


def _is_legal(row: Row, name: str, value: object) -> bool:
    try:
        row.parse(name, value if isinstance(value, str) else "")
    except ConfigError:
        return False
    return isinstance(value, str)


def untouched_line(topics: Collection[str], topic_config: Callable[[str], Configs]) -> list[str]:
    """What an operator should know of topics with an empty cleanup.policy, in one line."""
    untouched = sorted(topic for topic in topics if topic_config(topic).get(POLICY) == "")
    if not untouched:
        return []
    more = f" and {len(untouched) - _NAMES_MAX} more" if len(untouched) > _NAMES_MAX else ""
    line = (
        f"nothing is deleted from, or compacted in, {', '.join(untouched[:_NAMES_MAX])}{more}: the "
        "cleanup.policy is empty, as it is where no configs were found with a topic's records; say what it "
        "should be, as in "
        f"`ottla configs set --topic {untouched[0]} cleanup.policy=delete` (or compact, or compact,delete)"
    )
    return [line]


def adopted_line(store: LogStore) -> list[str]:
    """That topics are taken over; UnfitFileError if one of their partitions cannot be, since a keeper that
    does not know it would have it removed at the next start."""
    if store.unfit:
        raise UnfitFileError(
            f"{min(store.unfit)} has something in its place that is not its log (`ottla verify` says what), "
            "and no keeper knows its topic: move that away and start again"
        )
    topics = {topic_partition.topic for topic_partition in store.logs if _is_topic(topic_partition.topic)}
    if not topics:
        return []
    partitions = sum(topic_partition.topic in topics for topic_partition in store.logs)
    line = (
        f"the keeper is new (there was no keeper.db): topics taken over from their folders: {len(topics)}, "
        f"with {partitions} partitions"
    )
    return [line]


def adopted_topics(
    adoption: Adoption, broker_id: int, image: Image, store: LogStore, random: Random
) -> list[Operation]:
    """A new keeper over a directory with logs: make their topics known."""
    if image.cluster_id:
        return []
    assignments: dict[str, dict[int, tuple[int, ...]]] = {}
    for topic, partition in sorted(store.logs):
        if _is_topic(topic):
            assignments.setdefault(topic, {})[partition] = (broker_id,)
    operations: list[Operation] = []
    for name, assignment in assignments.items():
        ids = (store.topic_id(TopicPartition(name, p)) for p in assignment)
        topic_id = next(filter(None, ids), adoption.topic_ids.get(name)) or random.randbytes(16)
        epochs = {p: store.logs[TopicPartition(name, p)].latest_epoch + 1 for p in assignment}
        planned = PlannedTopic(
            name=name, id=topic_id, assignment=assignment, configs=adoption.topic_config(name), epochs=epochs
        )
        operations += planned.operations(image)
    for name, configs in adoption.broker_configs.items():
        operations += plan_configs(znodes.broker_config_path(name), configs, None)
    used = max((producer for log in store.logs.values() for producer in log.producers.by_id), default=-1)
    if used >= 0:
        # An id given out again would make a new producer's records look like an old one's, sent twice.
        block = znodes.producer_id_block_node(broker_id, 0, used)
        operations.append(Create(znodes.PRODUCER_ID_BLOCK, block))
    return operations


def remove_strays(broker_id: int, image: Image, store: LogStore, now_ms: int) -> list[str]:
    """Remove logs of a topic that was deleted, perhaps to be made again, or of a partition that was moved to
    others, while this broker was not there to see it. Answers which, a line each."""
    lines = []
    for topic_partition in list(store.logs):
        # Whoever goes back to Apache Kafka needs the log of KRaft.
        if topic_partition.topic != KRAFT_TOPIC and not _is_ours(broker_id, image, store, topic_partition):
            is_known = topic_partition.topic in image.topics
            why = "its replicas are elsewhere" if is_known else "its topic is gone"
            lines.append(f"{topic_partition}: {why}; its folder will be removed")
            store.delete(topic_partition, now_ms)
    return lines


def _is_ours(broker_id: int, image: Image, store: LogStore, topic_partition: TopicPartition) -> bool:
    topic = image.topics.get(topic_partition.topic)
    if topic is None or store.topic_id(topic_partition) not in {None, topic.id}:
        return False
    return broker_id in topic.assignment.get(topic_partition.partition, (broker_id,))


def elections(broker_id: int, image: Image) -> list[Operation]:
    """After a crash the end of a log may be gone, and what comes in its place must be told apart from
    it: this broker leads what it led in a new epoch."""
    return [
        operation for topic in image.topics.values() for operation in plan_reelection(image, topic, broker_id)
    ]
