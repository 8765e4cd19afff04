"""A write to the keeper as a multi of ZooKeeper's, and its answer as an outcome."""

import zlib
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from kazoo.client import KazooClient
from kazoo.exceptions import (
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    OperationTimeoutError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
    SessionMovedError,
)
from kazoo.security import ACL

from ottla.controller import acl_nodes, user_nodes, znodes
from ottla.controller.keeper import Check, Create, Delete, Operation, Outcome, Put, Refused, Unknown, Written

LOST = (
    ConnectionClosedError, ConnectionLoss, OperationTimeoutError, SessionExpiredError, SessionMovedError,
)  # fmt: skip

WRITE_BYTES_MAX = 1_000_000  # ZooKeeper's jute.maxbuffer is a little more, and closes the connection
PACKED_BYTES_MIN = 4 * 1024  # the state of about 65 partitions
_PACKED = b"\x78"  # how zlib begins, and JSON and numbers do not
_FOLDER_DEPTH_MAX = 2


def is_folder(path: str) -> bool:
    """Whether a node may have children: by the layout of the tree, so that thousands of leaves need no
    watch on theirs."""
    depth = path.count("/")
    if depth <= _FOLDER_DEPTH_MAX:
        return True
    if path.startswith(user_nodes.USERS):  # users have clients
        return depth <= _FOLDER_DEPTH_MAX + 2
    return depth == _FOLDER_DEPTH_MAX + 1 and path.startswith((znodes.TOPICS, acl_nodes.PREFIXED))


def is_told_empty(path: str) -> bool:
    """A user's node, which ZooKeeper may have made for the sake of those below it: whoever writes it has to
    know that it is there."""
    return path.startswith(user_nodes.USERS) and path.count("/") == _FOLDER_DEPTH_MAX + 1


def parent_of(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def packed(content: bytes) -> bytes:
    """The states of thousands of partitions are more than a node may hold, and those of a hundred are read by
    every broker at each change. They are very much alike: a quarter is left of them."""
    return zlib.compress(content, 1) if len(content) >= PACKED_BYTES_MIN else content


def unpacked(content: bytes) -> bytes:
    return zlib.decompress(content) if content.startswith(_PACKED) else content


class Versioned(Protocol):
    @property
    def version(self) -> int: ...


class Multi:
    """`folders` must be there before it is committed; `paths` are to be read after."""

    def __init__(
        self,
        chroot: str,
        operations: tuple[Operation, ...],
        below: Callable[[str], list[str]],
        is_there: Callable[[str], bool],
        acls: Callable[[str], list[ACL]],
    ) -> None:
        self.operations = operations
        self.refusal: Refused | None = None
        self._chroot = chroot
        self._acls = acls
        self._steps = [step for operation in operations for step in _steps(operation, below)]
        created = {step.path for step in self._steps if isinstance(step, Create)}
        self.folders = sorted(
            {
                folder
                for path in created
                for folder in _folders_of(path)
                if folder not in created and not is_there(folder)
            }
        )
        self.paths = list(dict.fromkeys(step.path for step in self._steps))
        self.relisted = [
            step.path for step in operations if isinstance(step, Delete) and is_folder(step.path)
        ]
        size = sum(len(packed(step.data)) for step in self._steps if isinstance(step, Create | Put))
        if size > WRITE_BYTES_MAX:
            largest = max(
                (step for step in self._steps if isinstance(step, Create | Put)),
                key=lambda step: len(step.data),
            )
            self.refusal = Refused(largest.path, f"{size} bytes are more than ZooKeeper takes at a time")

    def commit(self, client: KazooClient) -> Any:
        transaction = client.transaction()
        for step in self._steps:
            path = self._chroot + step.path
            match step:
                case Create(_, content, ephemeral):
                    transaction.create(path, packed(content), self._acls(step.path), ephemeral)
                case Put(_, content, version):
                    transaction.set_data(path, packed(content), version)
                case Delete(_, version):
                    transaction.delete(path, version)
                case Check(_, version):
                    transaction.check(path, version)
        return transaction.commit_async()

    def has_met_strangers(self, results: Any) -> bool:
        """Whether a node that was to be deleted has children that were not known."""
        return any(isinstance(result, NotEmptyError) for result in results or ())

    def outcome(
        self, results: Any, error: Exception | None, version_of: Callable[[str], Versioned | None]
    ) -> Outcome:
        if isinstance(error, LOST):
            return Unknown(f"ZooKeeper's answer was lost: {type(error).__name__} {error}".rstrip())
        if error is not None:
            path = self.operations[0].path if self.operations else ""
            return Refused(path, f"ZooKeeper refuses the write: {type(error).__name__} {error}".rstrip())
        for step, result in zip(self._steps, results, strict=False):
            if isinstance(result, Exception) and not isinstance(
                result, RolledBackError | RuntimeInconsistency
            ):
                return Refused(step.path, _reason(step, result, version_of(step.path)))
        return Written()


def _steps(operation: Operation, below: Callable[[str], list[str]]) -> Iterator[Operation]:
    if isinstance(operation, Delete):
        yield from (Delete(path) for path in below(operation.path))
    yield operation


def _folders_of(path: str) -> Iterator[str]:
    parent = parent_of(path)
    if parent != "/":
        yield from _folders_of(parent)
        yield parent


def _reason(step: Operation, error: Exception, node: Versioned | None) -> str:
    if isinstance(error, NodeExistsError):
        return f"{step.path} is there already"
    if isinstance(error, NoNodeError):
        return f"{step.path} is not there"
    if isinstance(error, BadVersionError):
        expected = "?" if isinstance(step, Create) else step.version
        now = node.version if node else "another"
        return f"{step.path} is at version {now}, not {expected}"
    if isinstance(error, NoAuthError):
        return f"the ACL of {step.path} or of the node above it does not let this broker write"
    return f"ZooKeeper refuses {step.path}: {type(error).__name__} {error}".rstrip()
