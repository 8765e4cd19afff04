"""The keeper as the core sees it: a tree of versioned nodes, written by conditional multi-writes, and
watched.

A write leaves the core as a tuple of operations, all or nothing. Its outcome comes back as `Written`,
`Refused` or `Unknown`, always after the changes it made have been seen as `NodeChanged`. A version of -1 in a
condition means any.

The changes of one node arrive in the order in which they were made; changes in between may be left out. Those
of different nodes may arrive in any order, a parent before its children, with one exception: a change of
`/cluster/deletions`, which counts the topics that were deleted, arrives after all changes that were made
before it, if need be after the outcome of its write. So whoever knows the count knows no topic that is not
there. A broker's session with the keeper holds its ephemeral nodes; when it expires they are gone, and
whoever registers again is, to all others, another incarnation: its node has another `created`.
"""

from dataclasses import dataclass
from typing import TypeAlias

ANY = -1


@dataclass(frozen=True, slots=True)
class Create:
    path: str
    data: bytes
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class Put:
    """Set a node's data; it must exist, at this version."""

    path: str
    data: bytes
    version: int = ANY


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove a node and everything below it."""

    path: str
    version: int = ANY


@dataclass(frozen=True, slots=True)
class Check:
    path: str
    version: int


Operation: TypeAlias = Create | Put | Delete | Check


@dataclass(frozen=True, slots=True)
class NodeChanged:
    """A node as it is now; no data: it is gone. `created` is the place of its creation in the keeper's order
    of writes (ZooKeeper's czxid): what a broker's node has there is the broker's epoch."""

    path: str
    data: bytes | None
    version: int
    created: int = 0


@dataclass(frozen=True, slots=True)
class Written:
    """The whole write happened."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing was written, because a condition did not hold."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Unknown:
    """The connection was lost before the answer came. The write may have happened or not, and what can be
    read of its nodes now has been seen as `NodeChanged`: decide again on that."""

    reason: str


Outcome: TypeAlias = Written | Refused | Unknown
