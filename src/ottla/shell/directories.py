"""The data directories of a broker when it starts: locked, found to be ours, marked as ours.

One that cannot be used is offline from the beginning, and the others serve; but the first holds keeper.db,
and without that there is nothing to start with.
"""

import logging
from collections.abc import Sequence

from ottla.broker.broker import Broker
from ottla.log.directories import LogDirectoryError
from ottla.log.store import LogStore
from ottla.shell.lock import DirectoryLock, StartError, UnusableError, read_cluster_id, write_meta

log = logging.getLogger(__name__)


def take(locks: Sequence[DirectoryLock], store: LogStore) -> None:
    for lock in locks:
        try:
            lock.take()
        except UnusableError as error:
            _pass_over(store, lock.directory, error)


def cluster_ids(store: LogStore, broker_id: int) -> dict[str, str | None]:
    """Which cluster each directory says it belongs to."""
    claims = {}
    for directory, disk in list(store.disks.items()):
        try:
            claims[directory] = read_cluster_id(disk, directory, broker_id)
        except LogDirectoryError as error:
            _pass_over(store, directory, StartError(str(error)))
    return claims


def write_metas(broker: Broker) -> None:
    for directory, disk in broker.store.disks.items():
        try:
            write_meta(disk, directory, broker.id, broker.image.cluster_id)
        except LogDirectoryError as error:
            if len(broker.store.disks) == 1:
                raise
            broker.storage_error(error)


def _pass_over(store: LogStore, directory: str, error: StartError) -> None:
    if len(store.directories) == 1:
        raise error
    if directory == store.directories[0]:
        raise StartError(f"{error}; it is the first of log.dirs and holds keeper.db: no start without it")
    log.error("%s is offline until the next start: %s", directory, error)
    store.fail(directory, str(error))
