"""The keeper of a single broker: a tree of versioned nodes in an SQLite file in the data directory.

A write is one transaction, synced before it is answered. Ephemeral nodes belong to the one session there
is: they go when the file is opened, because whoever made them is gone.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterable, Iterator

from ottla.base.files import kind_of
from ottla.controller.keeper import (
    ANY,
    Check,
    Create,
    Delete,
    NodeChanged,
    Operation,
    Outcome,
    Put,
    Refused,
    Written,
)
from ottla.shell.lock import StartError, damaged_keeper

SCHEMA = """
CREATE TABLE IF NOT EXISTS node (
    path TEXT PRIMARY KEY,
    data BLOB NOT NULL,
    version INTEGER NOT NULL,
    ephemeral INTEGER NOT NULL
) WITHOUT ROWID
"""


def _check_plain(path: str) -> None:
    """SQLite would follow a link, and wait for a FIFO."""
    for name in (path, f"{path}-wal", f"{path}-shm", f"{path}-journal"):
        try:
            kind = kind_of(os.lstat(name))
        except FileNotFoundError:
            continue
        if kind is not None:
            raise StartError(f"{name} is {kind}, not a plain file, and is not opened; move it away")


class _RefusedError(Exception):
    def __init__(self, path: str, reason: str) -> None:
        super().__init__(reason)
        self.refused = Refused(path, reason)


def _keep_private(path: str) -> None:
    """It has users' credentials, salted as they are. What goes wrong here goes wrong again with SQLite."""
    with contextlib.suppress(OSError), open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "rb") as file:
        os.fchmod(file.fileno(), 0o600)


class EmbeddedKeeper:
    def __init__(self, path: str, *, durable: bool = True) -> None:
        _check_plain(path)
        _keep_private(path)
        self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            self._open(durable=durable)
        except (sqlite3.Error, ValueError) as error:
            self._database.close()
            raise damaged_keeper(path, error) from None

    def _open(self, *, durable: bool) -> None:
        """Read everything before anything is written: damage must not be found later, and spread."""
        database = self._database
        database.execute("PRAGMA journal_mode = WAL")
        database.execute(f"PRAGMA synchronous = {'FULL' if durable else 'OFF'}")
        database.execute(SCHEMA)
        (verdict,) = database.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise ValueError(verdict)
        for node in self.load():
            if not (isinstance(node.data, bytes) and isinstance(node.version, int)):
                raise ValueError(f"node {node.path} is no bytes with a version")
        database.execute("DELETE FROM node WHERE ephemeral")

    def load(self) -> list[NodeChanged]:
        """The whole tree, parents before children."""
        rows = self._database.execute("SELECT path, data, version FROM node ORDER BY path")
        return [NodeChanged(path, data, version) for path, data, version in rows]

    def write(self, operations: Iterable[Operation]) -> tuple[list[NodeChanged], Outcome]:
        """All or nothing: the nodes that changed, and how it ended."""
        self._database.execute("BEGIN IMMEDIATE")
        try:
            changed = [node for operation in operations for node in self._apply(operation)]
        except _RefusedError as error:
            self._database.execute("ROLLBACK")
            return [], error.refused
        self._database.execute("COMMIT")
        return changed, Written()

    def close(self) -> None:
        self._database.close()

    def _version(self, path: str) -> int | None:
        row = self._database.execute("SELECT version FROM node WHERE path = ?", (path,)).fetchone()
        return row[0] if row else None

    def _expect(self, path: str, expected: int) -> int:
        version = self._version(path)
        if version is None:
            raise _RefusedError(path, f"{path} is not there")
        if expected not in {ANY, version}:
            raise _RefusedError(path, f"{path} is at version {version}, not {expected}")
        return version

    def _apply(self, operation: Operation) -> Iterator[NodeChanged]:
        match operation:
            case Create(path, data, ephemeral):
                if self._version(path) is not None:
                    raise _RefusedError(path, f"{path} is there already")
                self._database.execute("INSERT INTO node VALUES (?, ?, 0, ?)", (path, data, ephemeral))
                yield NodeChanged(path, data, 0)
            case Put(path, data, expected):
                version = self._expect(path, expected) + 1
                self._database.execute(
                    "UPDATE node SET data = ?, version = ? WHERE path = ?", (data, version, path)
                )
                yield NodeChanged(path, data, version)
            case Delete(path, expected):
                self._expect(path, expected)
                rows = self._database.execute(
                    "DELETE FROM node WHERE path = ? OR (path > ? AND path < ?) RETURNING path, version",
                    (path, path + "/", path + "0"),
                ).fetchall()
                for gone, version in sorted(rows, reverse=True):
                    yield NodeChanged(gone, None, version)
            case Check(path, expected):
                self._expect(path, expected)
