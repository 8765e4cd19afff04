"""The data directories of a broker when it starts: locked, found to be ours, marked as ours.

One that cannot be used is offline from the beginning, and the others serve. But the first one of a broker
without a ZooKeeper holds keeper.db, and without that there is nothing to start with.
"""

import logging
from collections.abc import Sequence

from ottla.broker.broker import Broker
from ottla.log.directories import LogDirectoryError
from ottla.log.store import LogStore
from ottla.shell.lock import DirectoryLock, StartError, UnusableError, read_cluster_id, write_meta

log = logging.getLogger(__name__)


def take(locks: Sequence[DirectoryLock], store: LogStore, *, holds_keeper: bool) -> None:
    for lock in locks:
        try:
            lock.take()
        except UnusableError as error:
            _pass_over(store, lock.directory, error, holds_keeper=holds_keeper)


def cluster_ids(broker: Broker, *, holds_keeper: bool) -> dict[str, str | None]:
    """Which cluster each directory says it belongs to."""
    claims, store = {}, broker.store
    for directory, disk in list(store.disks.items()):
        try:
            claims[directory] = read_cluster_id(disk, directory, broker.id)
        except LogDirectoryError as error:
            _pass_over(store, directory, StartError(str(error)), holds_keeper=holds_keeper)
    return claims


def write_metas(broker: Broker) -> None:
    for directory, disk in broker.store.disks.items():
        try:
            write_meta(disk, directory, broker.id, broker.image.cluster_id)
        except LogDirectoryError as error:
            if len(broker.store.disks) == 1:
                raise
            broker.storage_error(error)


def _pass_over(store: LogStore, directory: str, error: StartError, *, holds_keeper: bool) -> None:
    if len(store.disks) == 1:
        raise error
    if holds_keeper and directory == store.directories[0]:
        raise StartError(f"{error}; it is the first of log.dirs and holds keeper.db: no start without it")
    log.error("%s is offline until the next start: %s", directory, error)
    store.fail(directory, str(error))
