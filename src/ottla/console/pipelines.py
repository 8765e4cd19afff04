"""Pipelines as a console shows them. What is read, and from where, whoever starts the console says: pipelines
stand above this room, and a console without any has no page of them."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

REJECTED = ("rejected", "unparsed", "malformed", "invalid", "dead", "late")


def is_rejecting(name: str) -> bool:
    """Whether a topic or a table takes what a pipeline could not use, by the last word of its name."""
    return re.split(r"[._-]", name)[-1] in REJECTED


class Table(NamedTuple):
    name: str
    rows: int
    bytes: int
    files: int


class Source(NamedTuple):
    """How far a flow has read a topic."""

    flow: str
    topic: str
    position: int
    lag: int | None


class Part(NamedTuple):
    """Of a graph: `kind` is topic, flow, table, view or sink."""

    kind: str
    name: str


class Pipeline(NamedTuple):
    """The last run, and what the pipeline has made so far. `problem`: why that is not known. `edges`: what
    each flow reads and writes, as the last run found it."""

    name: str
    path: str
    problem: str = ""
    state: str = ""
    reason: str = ""
    master: str = ""
    rounds: int = 0
    started_ms: int | None = None
    ended_ms: int | None = None
    flows: tuple[tuple[str, str], ...] = ()
    tables: tuple[Table, ...] = ()
    sources: tuple[Source, ...] = ()
    topics: tuple[str, ...] = ()
    edges: tuple[tuple[Part, Part], ...] = ()

    @property
    def rejecting(self) -> list[str]:
        return [topic for topic in self.topics if is_rejecting(topic)]

    @property
    def rejected_tables(self) -> list[Table]:
        return [table for table in self.tables if is_rejecting(table.name)]

    @property
    def lag(self) -> int | None:
        lags = [source.lag for source in self.sources if source.lag is not None]
        return sum(lags) if lags else None


Pipelines: TypeAlias = Callable[[Any], list[Pipeline]]  # given an AdminClient
