"""The data directories of a broker when it starts: locked, found to be ours, marked as ours.

One that cannot be used is offline from the beginning, and the others serve. But the first one of a broker
without a ZooKeeper holds keeper.db, and without that there is nothing to start with.
"""

import contextlib
import logging
from collections.abc import Mapping, Sequence

from ottla.base.log_fields import fields
from ottla.broker.storage import Storage
from ottla.controller import znodes
from ottla.controller.keeper import NodeChanged
from ottla.log.directories import DirectoryFiles, LogDirectoryError
from ottla.log.folders import META, parse_folder
from ottla.log.store import LogStore
from ottla.shell.lock import (
    SHARED,
    DirectoryLock,
    StartError,
    UnusableError,
    damaged_keeper,
    read_cluster_id,
    read_meta,
    write_meta,
)

log = logging.getLogger(__name__)


def take(locks: Sequence[DirectoryLock], store: LogStore, *, holds_keeper: bool) -> None:
    for lock in locks:
        try:
            lock.take()
        except UnusableError as error:
            _pass_over(store, lock.directory, error, holds_keeper=holds_keeper)


def check_alone(store: LogStore) -> None:
    """Refuse to be a cluster of its own with the directory of another one: this broker would acknowledge what
    that one does not know, and remove what it does not know itself."""
    for directory, disk in store.disks.items():
        with contextlib.suppress(LogDirectoryError):  # it will be found to be offline
            if SHARED in read_meta(disk, directory):
                raise StartError(
                    f"{directory} belongs to a cluster on ZooKeeper: start with --zookeeper. To make it a "
                    f"broker of its own, for good, remove the line {SHARED} from its {META}"
                )


def cluster_ids(store: LogStore, broker_id: int, *, holds_keeper: bool) -> dict[str, str | None]:
    """Which cluster each directory says it belongs to."""
    claims = {}
    for directory, disk in list(store.disks.items()):
        try:
            claims[directory] = read_cluster_id(disk, directory, broker_id)
        except LogDirectoryError as error:
            _pass_over(store, directory, StartError(str(error)), holds_keeper=holds_keeper)
    return claims


def tree_cluster_id(nodes: Sequence[NodeChanged], where: str) -> str | None:
    """The cluster that a keeper's nodes are of; None if they are new."""
    for node in nodes:
        if node.path == znodes.CLUSTER_ID and node.data:
            try:
                return str(znodes.parse(node.data)["id"])
            except (ValueError, TypeError, LookupError) as error:
                raise damaged_keeper(where, error) from None
    return None


def check_shared(
    store: LogStore, claims: Mapping[str, str | None], where: str, cluster_id: str | None
) -> None:
    """A broker removes logs that its keeper does not know, because their topics were deleted. Refuse to start
    where it would know none of them: a shared keeper that has lost everything, or that they are new to."""
    for directory, claimed in claims.items():
        disk = store.disks[directory]
        if cluster_id is None and SHARED in read_meta(disk, directory):
            raise StartError(
                f"{directory} belongs to cluster {claimed}, of which {where} knows nothing: is that the "
                "right address, with the right chroot? If its nodes are lost, bring them back from a backup; "
                "to begin another cluster with the logs that are here, and no others, remove the lines "
                f"cluster.id and {SHARED} from its {META}"
            )
        if cluster_id is not None and claimed is None and _holds_logs(disk, directory):
            raise StartError(
                f"{directory} holds logs and does not say of which cluster; {where} would have them removed: "
                "start with an empty directory, or, if they are of that cluster, "
                f"with a {META} that says cluster.id={cluster_id}"
            )


def _holds_logs(disk: DirectoryFiles, directory: str) -> bool:
    try:
        return any(map(parse_folder, disk.list(directory)))
    except LogDirectoryError:
        return False  # it will be found to be offline


def write_metas(storage: Storage, broker_id: int, cluster_id: str, *, shared: bool) -> None:
    disks = storage.store.disks
    for directory, disk in disks.items():
        try:
            write_meta(disk, directory, broker_id, cluster_id, shared=shared)
        except LogDirectoryError as error:
            if len(disks) == 1:
                raise
            storage.failed(error)


def _pass_over(store: LogStore, directory: str, error: StartError, *, holds_keeper: bool) -> None:
    if len(store.disks) == 1:
        raise error
    if holds_keeper and directory == store.directories[0]:
        raise StartError(f"{error}; it is the first of log.dirs and holds keeper.db: no start without it")
    log.error(
        "%s is offline until the next start: %s", directory, error,
        extra=fields(directory=directory, reason=str(error)),
    )  # fmt: skip
    store.fail(directory, str(error))
