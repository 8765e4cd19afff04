"""A keeper's tree in memory: what a write does to it, and what is left when a session ends.

A write is all or nothing, and answers what it changed, children before their parents where nodes go. It moves
the order of writes on even if it is refused, as ZooKeeper's does.
"""

from collections.abc import Hashable, Iterable
from typing import NamedTuple

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

ONLY_SESSION = 0


class Node(NamedTuple):
    data: bytes
    version: int
    created: int
    owner: Hashable | None = None  # the session with which it goes, if it is ephemeral


class Tree:
    """`is_ordered`: whether nodes say when they were created. The tree of a broker that is alone does not."""

    def __init__(self, *, is_ordered: bool = True) -> None:
        self.nodes: dict[str, Node] = {}
        self.writes = 0
        self._is_ordered = is_ordered

    def load(self) -> list[NodeChanged]:
        """All nodes, parents before children."""
        return [_changed(path, node) for path, node in sorted(self.nodes.items())]

    def write(
        self, operations: Iterable[Operation], session: Hashable = ONLY_SESSION
    ) -> tuple[list[NodeChanged], Outcome]:
        self.writes += 1
        before: dict[str, Node | None] = {}  # of the nodes that were changed
        changed: list[NodeChanged] = []
        for operation in operations:
            refusal = self._refusal(operation)
            if refusal is not None:
                self._restore(before)
                return [], Refused(operation.path, refusal)
            for path in self._paths(operation):
                before.setdefault(path, self.nodes.get(path))
            changed += self._apply(operation, session)
        return changed, Written()

    def _restore(self, before: dict[str, Node | None]) -> None:
        for path, node in before.items():
            if node is not None:
                self.nodes[path] = node
            else:
                self.nodes.pop(path, None)

    def end(self, session: Hashable = ONLY_SESSION) -> list[NodeChanged]:
        """A session is over, and its nodes go."""
        return self._remove(path for path, node in self.nodes.items() if node.owner == session)

    def _refusal(self, operation: Operation) -> str | None:
        path = operation.path
        node = self.nodes.get(path)
        if isinstance(operation, Create):
            return f"{path} is there already" if node else None
        if node is None:
            return f"{path} is not there"
        if operation.version in {ANY, node.version}:
            return None
        return f"{path} is at version {node.version}, not {operation.version}"

    def _apply(self, operation: Operation, session: Hashable) -> list[NodeChanged]:
        match operation:
            case Create(path, data, ephemeral):
                created = self.writes if self._is_ordered else 0
                node = self.nodes[path] = Node(data, 0, created, session if ephemeral else None)
                return [_changed(path, node)]
            case Put(path, data):
                before = self.nodes[path]
                node = self.nodes[path] = before._replace(data=data, version=before.version + 1)
                return [_changed(path, node)]
            case Delete():
                return self._remove(self._paths(operation))
            case Check():
                return []

    def _paths(self, operation: Operation) -> list[str]:
        """The nodes that it changes."""
        match operation:
            case Check():
                return []
            case Delete(path):
                return [below for below in self.nodes if f"{below}/".startswith(f"{path}/")]
        return [operation.path]

    def _remove(self, paths: Iterable[str]) -> list[NodeChanged]:
        gone = [(path, self.nodes.pop(path)) for path in sorted(paths, reverse=True)]
        return [NodeChanged(path, None, node.version, node.created) for path, node in gone]


def _changed(path: str, node: Node) -> NodeChanged:
    return NodeChanged(path, node.data, node.version, node.created)
