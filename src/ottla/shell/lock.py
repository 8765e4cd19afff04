"""A data directory belongs to one broker: a lock against a second process, and a file that says whose it
is."""

import fcntl
import logging
import os

from ottla.base.files import Files, OsFiles, UnfitFileError, open_plain
from ottla.log.folders import INCARNATION, KEEPER_DB, LOCK, META

log = logging.getLogger(__name__)

SHARED = "ottla.keeper=shared"  # this directory's topics are known to a keeper outside of it


class StartError(Exception):
    """The broker cannot start, for a reason the person who started it can mend."""


class UnusableError(StartError):
    """A data directory that its disk does not let us use."""


def damaged_keeper(where: str, error: Exception) -> StartError:
    remedy = "if its nodes are damaged, bring them back from a backup"
    if os.path.basename(where) == KEEPER_DB:
        remedy = (
            f"if it is damaged, move it and {KEEPER_DB}-wal away: topics and what is set for them are then "
            "taken from the folders of their partitions"
        )
    return StartError(f"cannot read {where}: {error}; {getattr(error, 'remedy', '') or remedy}")


class DirectoryLock:
    """Held from `take` until `release`, or until the process is gone, however it ended."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._fd = -1

    def take(self) -> None:
        try:
            os.makedirs(self.directory, exist_ok=True)
            self._fd, _ = open_plain(os.path.join(self.directory, LOCK), os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            where = f"{error.filename} is " if isinstance(error, UnfitFileError) else ""
            raise UnusableError(
                f"cannot use {self.directory} as a data directory: {where}{error.strerror}"
            ) from None
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(self._fd, 32, 0).decode(errors="replace").strip()
            self.release()
            raise StartError(
                f"{self.directory} is in use by another broker (process {holder or 'unknown'}); "
                "stop that one, or start this one with another --data directory"
            ) from None
        try:
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)
        except OSError as error:
            self.release()
            raise UnusableError(
                f"cannot write to {self.directory} as a data directory: {error.strerror}"
            ) from None

    @property
    def is_held(self) -> bool:
        return self._fd >= 0

    def incarnation(self) -> str:
        """The word with which the last broker of this directory registered. Its reader holds the lock, so
        that broker is gone. Empty in a copy of the directory: that lock says nothing of the original."""
        try:
            path = os.path.join(self.directory, INCARNATION)
            identity, _, word = OsFiles().read(path).decode().partition(" ")
        except (OSError, ValueError):
            return ""
        return word.strip() if identity == self._identity() else ""

    def write_incarnation(self, word: str) -> None:
        """Before registering with it. Where that fails, the next start waits for the session to end."""
        path = os.path.join(self.directory, INCARNATION)
        try:
            OsFiles().write_atomic(path, f"{self._identity()} {word}\n".encode(), sync=False)
        except OSError as error:
            log.warning("cannot write %s: %s", path, error.strerror)

    def _identity(self) -> str:
        """Device and inode of the lock file, which stays as long as the directory."""
        status = os.fstat(self._fd)
        return f"{status.st_dev}:{status.st_ino}"

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def read_cluster_id(files: Files, directory: str, broker_id: int) -> str | None:
    """The cluster this directory belongs to, None if it is new; refuses a directory of another broker."""
    path, lines = os.path.join(directory, META), read_meta(files, directory)
    given = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    owner = given.get("broker.id", given.get("node.id", str(broker_id)))
    if owner != str(broker_id):
        raise StartError(f"{directory} belongs to broker {owner}, and this is broker {broker_id} ({path})")
    return given.get("cluster.id")


def check_cluster(claims: dict[str, str | None]) -> str | None:
    """The one cluster that everything here belongs to, None if all of it is new."""
    cluster_ids = {where: cluster_id for where, cluster_id in claims.items() if cluster_id}
    for where, cluster_id in cluster_ids.items():
        first = next(iter(cluster_ids))
        if cluster_id != cluster_ids[first]:
            raise StartError(
                f"{first} belongs to cluster {cluster_ids[first]}, and {where} to cluster {cluster_id}; "
                "start with directories of one cluster only"
            )
    return next(iter(cluster_ids.values()), None)


def read_meta(files: Files, directory: str) -> list[str]:
    path = os.path.join(directory, META)
    return files.read(path).decode(errors="replace").splitlines() if files.exists(path) else []


def write_meta(files: Files, directory: str, broker_id: int, cluster_id: str, *, shared: bool) -> None:
    """Lines that are there stay, also those of Apache Kafka, which ignores the line that is ours."""
    written = read_meta(files, directory)
    lines = [*written] or ["version=0", f"broker.id={broker_id}", f"cluster.id={cluster_id}"]
    lines += [SHARED] if shared and SHARED not in lines else []
    if lines != written:
        files.write_atomic(os.path.join(directory, META), "\n".join([*lines, ""]).encode())
