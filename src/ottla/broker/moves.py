"""Partitions that move between the log directories of this broker: what is copied next, and what then."""

import logging
from collections.abc import Callable

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition
from ottla.base.log_fields import fields
from ottla.broker.effects import CopyLog
from ottla.broker.outbox import Outbox
from ottla.broker.storage import Storage
from ottla.controller.image import Image
from ottla.log.directories import LogDirectoryError
from ottla.log.directory_moves import Move, MoveError
from ottla.log.folders import FILE_NAME_MAX, future_folder
from ottla.log.log import Log

log = logging.getLogger(__name__)


class Moves:
    """`on_moved` is told of the log that takes the place of one that was copied."""

    def __init__(
        self, image: Image, storage: Storage, outbox: Outbox, on_moved: Callable[[Log, int], None]
    ) -> None:
        self._image = image
        self._storage = storage
        self._store = storage.store
        self._outbox = outbox
        self._on_moved = on_moved

    def ask(self, topic_partition: TopicPartition, directory: str) -> None:
        """AlterReplicaLogDirs for one partition. ApiError if it cannot be, or not now.

        As with Kafka, a partition that is not here yet will be made where it was wished to be, and the wish
        is refused all the same; and nothing moves while a directory is offline, which might hold it already.
        """
        store = self._store
        if len(future_folder(topic_partition, "0" * 32).encode()) > FILE_NAME_MAX:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic's name is too long for a move.")
        if directory not in store.directories:
            raise ApiError(ErrorCode.LOG_DIR_NOT_FOUND, f"{directory} is not one of log.dirs.")
        if directory not in store.disks or topic_partition in store.lost:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        if topic_partition not in store.logs:
            store.moves.wish(topic_partition, directory)
            topic = self._image.topics.get(topic_partition.topic)
            if topic is None or topic_partition.partition not in topic.assignment:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            raise ApiError(ErrorCode.REPLICA_NOT_AVAILABLE)
        if store.offline and store.directory_of(topic_partition) != directory:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
        store.moves.begin(topic_partition, directory)

    def start_copies(self, now_ms: int) -> None:
        for move in self._store.moves.ready():
            self._go_on(move, now_ms)

    def on_copied(self, move: Move, error: BaseException | None, now_ms: int) -> None:
        """A worker is done with a slice."""
        if not self._store.moves.on_copied(move):
            return  # and whatever went wrong with it is nobody's concern
        if isinstance(error, OSError):
            self._storage.failed(error)
        elif error is not None:
            self._give_up(move, error)
        else:
            self._go_on(move, now_ms)

    def _go_on(self, move: Move, now_ms: int) -> None:
        try:
            copied = self._store.moves.go_on(move, now_ms)
        except MoveError as error:
            self._give_up(move, error)
            return
        except LogDirectoryError as error:
            self._storage.failed(error)
            return
        if isinstance(copied, Log):
            self._on_moved(copied, now_ms)
        else:
            self._outbox.put(CopyLog(move, copied))

    def _give_up(self, move: Move, error: BaseException) -> None:
        topic, partition = move.topic_partition
        directory = self._store.directory_of(move.topic_partition)
        log.error(
            "%s stays in %s: %s", move.topic_partition, directory, error,
            extra=fields(topic=topic, partition=partition, directory=directory, reason=str(error)),
        )  # fmt: skip
        self._store.moves.cancel(move.topic_partition)
