"""Partitions that move between the log directories of this broker: what is copied next, and what then."""

import logging
from typing import TYPE_CHECKING

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition
from ottla.broker.effects import CopyLog
from ottla.log.directories import LogDirectoryError
from ottla.log.directory_moves import Move, MoveError
from ottla.log.folders import FILE_NAME_MAX, future_folder
from ottla.log.log import Log

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

log = logging.getLogger(__name__)


def ask_to_move(broker: "Broker", id: TopicPartition, directory: str) -> None:
    """AlterReplicaLogDirs for one partition. ApiError if it cannot be, or not now.

    As with Kafka, a partition that is not here yet will be made where it was wished to be, and the wish is
    refused all the same; and nothing moves while a directory is offline, which might hold it already.
    """
    store = broker.store
    if len(future_folder(id, "0" * 32).encode()) > FILE_NAME_MAX:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic's name is too long for a move.")
    if directory not in store.directories:
        raise ApiError(ErrorCode.LOG_DIR_NOT_FOUND, f"{directory} is not one of log.dirs.")
    if directory not in store.disks or id in store.lost:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
    if id not in store.logs:
        store.moves.wish(id, directory)
        known = broker.image.topics.get(id.topic)
        is_known = known is not None and id.partition in known.assignment
        raise ApiError(ErrorCode.REPLICA_NOT_AVAILABLE if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if store.offline and store.directory_of(id) != directory:
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR)
    store.moves.begin(id, directory)


def start_copies(broker: "Broker", now_ms: int) -> None:
    for move in broker.store.moves.ready():
        _go_on(broker, move, now_ms)


def on_copied(broker: "Broker", move: Move, error: BaseException | None, now_ms: int) -> None:
    """A worker is done with a slice."""
    if not broker.store.moves.on_copied(move):
        return  # and whatever went wrong with it is nobody's concern
    if isinstance(error, OSError):
        broker.storage_error(error)
    elif error is not None:
        _give_up(broker, move, error)
    else:
        _go_on(broker, move, now_ms)


def _go_on(broker: "Broker", move: Move, now_ms: int) -> None:
    try:
        found = broker.store.moves.go_on(move, now_ms)
    except MoveError as error:
        _give_up(broker, move, error)
        return
    except LogDirectoryError as error:
        broker.storage_error(error)
        return
    if not isinstance(found, Log):
        broker.effects.append(CopyLog(move, found))
        return
    partition = broker.partitions.get(move.topic_partition)
    if partition is not None:
        partition.log = found
        broker.copies.note(move.topic_partition)
    broker.start_syncs(now_ms)


def _give_up(broker: "Broker", move: Move, error: BaseException) -> None:
    log.error(
        "%s stays in %s: %s", move.topic_partition, broker.store.directory_of(move.topic_partition), error
    )
    broker.store.moves.cancel(move.topic_partition)
