"""What flows where in a pipeline: topics and tables that flows read, and the one that each writes."""

import hashlib
import json
import os
from typing import Any, NamedTuple

TOPIC, TABLE, VIEW, SINK, FLOW = "topic", "table", "view", "sink", "flow"


class Node(NamedTuple):
    """A topic, a table, a view, a sink that is neither, or a flow."""

    kind: str
    name: str


class Flow(NamedTuple):
    name: str
    reads: tuple[Node, ...]
    writes: Node
    file: str = ""
    line: int = 0

    @property
    def node(self) -> Node:
        return Node(FLOW, self.name)


class Dataflow(NamedTuple):
    """`nodes` are what the pipeline makes, a table that nothing writes included."""

    nodes: tuple[Node, ...] = ()
    flows: tuple[Flow, ...] = ()

    @property
    def edges(self) -> list[tuple[Node, Node]]:
        edges: list[tuple[Node, Node]] = []
        for flow in self.flows:
            edges += [(node, flow.node) for node in flow.reads]
            edges.append((flow.node, flow.writes))
        return edges

    def names(self, kind: str) -> list[str]:
        return [node.name for node in self.nodes if node.kind == kind]

    def readers(self, node: Node) -> list[Flow]:
        return [flow for flow in self.flows if node in flow.reads]

    def topics_read_for(self, tables: list[str]) -> list[str]:
        """Those that the flows into these tables read."""
        flows = [flow for flow in self.flows if flow.writes.name in tables]
        return sorted({node.name for flow in flows for node in flow.reads if node.kind == TOPIC})

    def as_json(self) -> dict[str, Any]:
        return {"nodes": self.nodes, "flows": [flow._asdict() for flow in self.flows]}


def from_json(told: dict[str, Any]) -> Dataflow:
    flows = (
        Flow(
            flow["name"],
            tuple(Node(*node) for node in flow["reads"]),
            Node(*flow["writes"]),
            flow["file"],
            flow["line"],
        )
        for flow in told["flows"]
    )
    return Dataflow(tuple(Node(*node) for node in told["nodes"]), tuple(flows))


def check_tables(named: list[str], tables: list[str]) -> None:
    """Spark passes over a name that it does not know, and over a sink."""
    for name in named:
        if name not in tables:
            raise ValueError(
                f"the pipeline has no table {name}; it has {', '.join(sorted(tables)) or 'none'} "
                "(sinks are refreshed only together with everything else)"
            )


def fingerprint(files: list[str]) -> str:
    """Of the files that say what flows where: another one, and a stored dataflow is out of date."""
    digest = hashlib.sha256()
    for path in files:
        with open(path, "rb") as file:
            digest.update(f"{os.path.basename(path)}\0".encode() + hashlib.sha256(file.read()).digest())
    return digest.hexdigest()


def store(path: str, dataflow: Dataflow, of: str) -> None:
    fresh = f"{path}.new"
    with open(fresh, "w", encoding="utf-8") as file:
        json.dump({"of": of, **dataflow.as_json()}, file, indent=1)
    os.replace(fresh, path)


def stored(path: str, of: str | None = None) -> Dataflow | None:
    """What the last run found, if it is of these files; without `of`, whatever it found."""
    try:
        with open(path, encoding="utf-8") as file:
            told = json.load(file)
        return from_json(told) if of is None or told["of"] == of else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
