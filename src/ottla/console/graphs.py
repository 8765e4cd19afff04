"""A graph of a pipeline as SVG, from left to right: what flows read, the flows, what they write, and so on.

A node stands right of everything that leads to it; what leads back (a flow that reads what it writes) does
not count for that. An edge over several columns keeps a place of its own in each of them, so that it goes
around boxes. Within a column, nodes stand near their neighbours.
"""

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from markupsafe import Markup, escape

from ottla.console.charts import svg
from ottla.console.figures import plural
from ottla.console.pipelines import FLOW, TABLE, TOPIC, Edge, Node, Pipeline

HEIGHT, GAP, ROW = 42, 52, 54
LETTERS, LETTERS_MIN, LETTER_WIDTH = 26, 9, 7.4  # of a name in a box, in the letters of console.css
NODES_MAX = 300
SWEEPS = 6
KINDS = (TOPIC, FLOW, TABLE)
WAYPOINT = "waypoint"


class Drawn(NamedTuple):
    """Where each node stands, by columns; `ways` are edges with the places that they pass."""

    columns: list[list[Node]]
    ways: list[list[Node]]


def flow_graph(pipeline: Pipeline) -> Markup:
    nodes, edges = pipeline.nodes, pipeline.known_edges
    if not any(node.kind == FLOW for node in nodes):
        return Markup("")
    if len(nodes) > NODES_MAX:
        return Markup('<p class="muted">The graph has too many parts to be drawn.</p>')
    drawn = layout(nodes, edges)
    boxes = _boxes(drawn.columns)
    states = {name: state.lower() for name, state in pipeline.flows}
    parts = [_edge([boxes[node] for node in way]) for way in drawn.ways]
    parts += [
        _drawn_box(node, boxes[node], states.get(node.name, "") if node.kind == FLOW else "")
        for column in drawn.columns
        for node in column
        if node.kind != WAYPOINT
    ]
    counts = {kind: sum(node.kind == kind for node in nodes) for kind in {*KINDS, *(n.kind for n in nodes)}}
    label = ", ".join(plural(counts[kind], kind) for kind in sorted(counts, key=_rank))
    width = max(box.right for box in boxes.values()) + 1
    height = max(map(len, drawn.columns)) * ROW - (ROW - HEIGHT) + 2
    return svg("map graph", width, height, label, parts)


def _rank(kind: str) -> tuple[int, str]:
    return (KINDS.index(kind) if kind in KINDS else len(KINDS), kind)


# -- where things stand --------------------------------------------------------------------------------------


def layout(nodes: Iterable[Node], edges: Iterable[Edge]) -> Drawn:
    nodes, edges = list(nodes), list(dict.fromkeys(edges))
    column_of = _columns(nodes, edges)
    columns: list[list[Node]] = [[] for _ in range(max(column_of.values()) + 1)]
    for node in nodes:
        columns[column_of[node]].append(node)
    ways = []
    for number, (begin, end) in enumerate(edges):
        between = range(column_of[begin] + 1, column_of[end])
        passed = [Node(WAYPOINT, f"{number} {column}") for column in between]
        for column, waypoint in zip(between, passed, strict=True):
            columns[column].append(waypoint)
        ways.append([begin, *passed, end])
    neighbours: dict[Node, list[Node]] = {}
    for way in ways:
        for before, after in pairwise(way):
            neighbours.setdefault(before, []).append(after)
            neighbours.setdefault(after, []).append(before)
    for _ in range(SWEEPS):
        for stack in (*columns, *reversed(columns)):
            _arrange(stack, columns, neighbours)
    return Drawn(columns, ways)


def _columns(nodes: list[Node], edges: list[Edge]) -> dict[Node, int]:
    """One more than the furthest that leads to it; a node that nothing leads to or from is by its kind."""
    forward = _without_circles(nodes, edges)
    joined = {node for edge in edges for node in edge}
    column_of = {node: 0 if node in joined else min(_rank(node.kind)[0], 2) for node in nodes}
    for _ in nodes:
        is_settled = True
        for begin, end in forward:
            if column_of[end] <= column_of[begin]:
                column_of[end], is_settled = column_of[begin] + 1, False
        if is_settled:
            break
    return column_of


def _without_circles(nodes: list[Node], edges: list[Edge]) -> list[Edge]:
    """The edges that do not lead back to where one came from."""
    after: dict[Node, list[Node]] = {}
    for begin, end in edges:
        after.setdefault(begin, []).append(end)
    entered = [node for node in nodes if node not in {end for _, end in edges}]
    forward, done = [], set[Node]()
    for first in (*entered, *nodes):
        path = [] if first in done else [first]
        while path:
            here, ends = path[-1], after.get(path[-1], [])
            if not ends:
                done.add(path.pop())
                continue
            end = ends.pop()
            if end not in path:
                forward.append((here, end))
                path += [] if end in done else [end]
    return forward


def _arrange(column: list[Node], columns: list[list[Node]], neighbours: dict[Node, list[Node]]) -> None:
    """Each where its neighbours are, on the average."""
    height = {node: row - len(other) / 2 for other in columns for row, node in enumerate(other)}

    def middle(node: Node) -> float:
        near = neighbours.get(node)
        return sum(height[other] for other in near) / len(near) if near else height[node]

    column.sort(key=middle)


class Box(NamedTuple):
    left: float
    top: float
    width: float

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def middle(self) -> float:
        return self.top + HEIGHT / 2


def _boxes(columns: list[list[Node]]) -> dict[Node, Box]:
    """A column is as wide as its longest name, and stands in the middle of the height."""
    tallest, left, boxes = max(map(len, columns)), 1.0, {}
    for nodes in columns:
        letters = max(len(_shown(node.name)) for node in nodes)
        width = round(max(letters, LETTERS_MIN) * LETTER_WIDTH + 24)
        for row, node in enumerate(nodes):
            boxes[node] = Box(left, 1 + (row + (tallest - len(nodes)) / 2) * ROW, width)
        left += width + GAP
    return boxes


# -- lines and boxes -----------------------------------------------------------------------------------------


def _edge(boxes: list[Box]) -> str:
    """From the right side of the first to the left side of the last, straight through what it passes."""
    x, y = boxes[0].right, boxes[0].middle
    path = f"M{x},{y}"
    for number, box in enumerate(boxes[1:], 2):
        bends = ((x + box.left) / 2,) * 2 if box.left > x else (x + GAP / 2, box.left - GAP / 2)
        path += f" C{bends[0]},{y} {bends[1]},{box.middle} {box.left},{box.middle}"
        x, y = box.left, box.middle
        if number < len(boxes):
            path, x = f"{path} H{box.right}", box.right
    return (
        f'<path class="edge" d="{path}"/><path class="tip" d="M{x - 7},{y - 4} L{x},{y} L{x - 7},{y + 4} Z"/>'
    )


def _shown(name: str) -> str:
    return name if len(name) <= LETTERS else f"{name[: LETTERS - 1]}…"


def _drawn_box(node: Node, box: Box, state: str) -> str:
    kind = "failed" if state == "failed" else node.kind
    title = f"{node.kind} {node.name}{f': {state}' if state else ''}"
    return (
        f'<rect class="box {escape(kind)}" x="{box.left}" y="{box.top}" width="{box.width}" '
        f'height="{HEIGHT}" rx="6"><title>{escape(title)}</title></rect>'
        f'<text class="kind" x="{box.left + 12}" y="{box.top + 15}">{escape(node.kind)}</text>'
        f'<text x="{box.left + 12}" y="{box.top + 32}">{escape(_shown(node.name))}</text>'
    )
