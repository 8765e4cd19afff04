"""Pipelines as a console shows them. What is read, and from where, whoever starts the console says: pipelines
stand above this room, and a console without any has no page of them."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

REJECTED = ("rejected", "unparsed", "invalid", "dead", "late")


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


class Pipeline(NamedTuple):
    """The last run, and what the pipeline has made so far. `problem`: why that is not known."""

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

    @property
    def rejecting(self) -> list[str]:
        """Topics that take what the pipeline could not use, by their name."""
        return [topic for topic in self.topics if topic.rpartition(".")[2] in REJECTED]

    @property
    def rejected_tables(self) -> list[Table]:
        return [table for table in self.tables if table.name.rpartition("_")[2] in REJECTED]

    @property
    def lag(self) -> int | None:
        lags = [source.lag for source in self.sources if source.lag is not None]
        return sum(lags) if lags else None


Pipelines: TypeAlias = Callable[[Any], list[Pipeline]]  # given an AdminClient
