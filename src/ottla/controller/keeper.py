"""The keeper as the core sees it: a tree of versioned nodes, written by conditional multi-writes, and
watched.

A write leaves the core as a tuple of operations, all or nothing. Its outcome comes back as `Written` or
`Refused`, always after the changes it made have been seen as `NodeChanged`. A version of -1 in a condition
means any.
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
    """A node as it is now; no data: it is gone."""

    path: str
    data: bytes | None
    version: int


@dataclass(frozen=True, slots=True)
class Written:
    """The whole write happened."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing was written, because a condition did not hold."""

    path: str
    reason: str


Outcome: TypeAlias = Written | Refused
