"""Pipelines as a console shows them. What is read, and from where, whoever starts the console says: pipelines
stand above this room, and a console without any has no page of them."""

import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

TOPIC, FLOW, TABLE = "topic", "flow", "table"
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


class Node(NamedTuple):
    """A topic, a flow, a table, or whatever else a pipeline reads or writes."""

    kind: str
    name: str


Edge: TypeAlias = tuple[Node, Node]


class Pipeline(NamedTuple):
    """The last run, and what the pipeline has made so far. `problem`: why that is not known. `edges` lead
    from what is read to the flow that reads it, and from there to what it writes."""

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
    edges: tuple[Edge, ...] = ()

    @property
    def known_edges(self) -> list[Edge]:
        """If nobody says what flows where: flows read their sources, and write the table of their name."""
        if self.edges:
            return list(self.edges)
        tables = {table.name for table in self.tables}
        reads = [(Node(TOPIC, source.topic), Node(FLOW, source.flow)) for source in self.sources]
        names = {name for name, _ in self.flows} | {source.flow for source in self.sources}
        return reads + [(Node(FLOW, name), Node(TABLE, name)) for name in sorted(names & tables)]

    @property
    def nodes(self) -> list[Node]:
        """All that is to be drawn, by their names."""
        nodes = {node for edge in self.known_edges for node in edge}
        nodes |= {Node(FLOW, name) for name, _ in self.flows}
        return sorted(nodes | {Node(TABLE, table.name) for table in self.tables})

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
