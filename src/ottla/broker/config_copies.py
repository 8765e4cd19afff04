"""Keeps the copies of settings beside the logs (`log/config_copy`) equal to what the image says.

Rules. A new log gets its copy at once, so that one sync makes both durable. What is there already is looked
at later, a portion with every turn of the loop, and written only if it differs: a broker of ten thousand
partitions reads their copies when it serves already, and writes none. What waits is only a name: what the
image says when its turn comes counts. Nothing is written before this broker is in a cluster, or before the
image has the topic's config node: what is on disk may be all there is.
"""

import os.path
from collections.abc import Callable
from functools import partial
from itertools import islice

from ottla.base.ids import KRAFT_TOPIC, TopicPartition
from ottla.broker.log_queue import AGAIN_MS
from ottla.controller.image import Image
from ottla.log.config_copy import BROKER_CONFIG, TOPIC_CONFIG, ConfigCopy, format_copy, read_file, says_none
from ottla.log.directories import LogDirectoryError
from ottla.log.log import Log
from ottla.log.store import LogStore

PORTION_MAX = 100
_KRAFT_LOG = TopicPartition(KRAFT_TOPIC, 0)


class ConfigCopies:
    """`on_failed` is told of a disk that failed."""

    def __init__(
        self, broker_id: int, image: Image, store: LogStore, on_failed: Callable[[OSError], object]
    ) -> None:
        self.todo: dict[TopicPartition, None] = {}
        self._broker_id = broker_id
        self._image = image
        self._store = store
        self._on_failed = on_failed
        self._are_brokers_due = False
        self._due_ms = 0

    def has_none(self, topic: str) -> bool:
        """Is it known that nothing is set for the topic? Then the folder of a new partition says it."""
        configs = self._image.topic_configs.get(topic)
        return configs is not None and not configs.values

    def on_created(self, log: Log) -> None:
        copy = self._topic_copy(log.topic_partition.topic)
        if copy is not None and copy.configs:
            _write(log, log.directory, TOPIC_CONFIG, format_copy(copy))

    def note(self, topic_partition: TopicPartition) -> None:
        """A log was found at the start, or moved, or its topic's configs changed."""
        self.todo[topic_partition] = None

    def note_brokers(self) -> None:
        """What is set for brokers may have changed."""
        self._are_brokers_due = True

    def next_ms(self) -> int | None:
        is_due = (self.todo or self._are_brokers_due) and self._image.cluster_id
        return self._due_ms if is_due else None

    def pump(self, now_ms: int) -> None:
        if self.next_ms() is None or now_ms < self._due_ms:
            return
        if self._are_brokers_due:
            self._attempt(self._keep_brokers, now_ms)
            self._are_brokers_due = False
        for topic_partition in list(islice(self.todo, PORTION_MAX)):
            log, copy = self._store.get(topic_partition), self._topic_copy(topic_partition.topic)
            if log is not None and copy is not None:
                self._attempt(partial(_keep_topic, log, copy), now_ms)
            del self.todo[topic_partition]

    def _attempt(self, keep: Callable[[], None], now_ms: int) -> None:
        try:
            keep()
        except LogDirectoryError as error:
            self._on_failed(error)
        except OSError:
            self._due_ms = now_ms + AGAIN_MS
            raise

    def _topic_copy(self, name: str) -> ConfigCopy | None:
        image = self._image
        topic, configs = image.topics.get(name), image.topic_configs.get(name)
        if topic is None or configs is None:
            return None
        return ConfigCopy(topic.id, configs.version, self._metadata_offset, configs.values)

    def _keep_brokers(self) -> None:
        """Where nothing was ever set there is no file, and none is made."""
        homes: dict[str, Log] = {}
        for topic_partition, log in self._store.logs.items():
            homes.setdefault(self._store.directory_of(topic_partition), log)
        nodes = {name: self._image.broker_configs.get(name) for name in ("", str(self._broker_id))}
        configs = {name: node.values for name, node in nodes.items() if node is not None and node.values}
        revision = sum(node.version for node in nodes.values() if node is not None)
        data = format_copy(ConfigCopy(None, revision, self._metadata_offset, configs))
        for directory, log in homes.items():
            present = read_file(log.files, directory, BROKER_CONFIG)
            if present != data and (configs or present is not None):
                _write(log, directory, BROKER_CONFIG, data)

    @property
    def _metadata_offset(self) -> int:
        log = self._store.get(_KRAFT_LOG)
        return 0 if log is None else log.log_end_offset


def _keep_topic(log: Log, copy: ConfigCopy) -> None:
    present, data = read_file(log.files, log.directory, TOPIC_CONFIG), format_copy(copy)
    if present is None and not copy.configs and says_none(log.files, log.directory):
        return
    if present != data:
        _write(log, log.directory, TOPIC_CONFIG, data)


def _write(log: Log, folder: str, name: str, data: bytes) -> None:
    """Into the page cache; the log's next sync makes it durable."""
    path = os.path.join(folder, name)
    log.files.write_atomic(path, data, sync=False)
    log.include_in_sync(path, folder)
