"""A graph of a pipeline as SVG, from left to right: what flows read, the flows, what they write, and so on.
Where its parts stand says `flow_layout`; what leads back (a flow that reads what it writes) is drawn as well.
"""

from itertools import chain
from typing import NamedTuple

from markupsafe import Markup, escape

from ottla.console.charts import svg
from ottla.console.figures import plural
from ottla.console.flow_layout import Cell, laid_out
from ottla.console.pipelines import FLOW, TABLE, TOPIC, Node, Pipeline

HEIGHT, GAP, ROW = 42, 52, 54
LETTERS, LETTERS_MIN, LETTER_WIDTH = 26, 9, 7.4  # of a name in a box, in the letters of console.css
NODES_MAX = 300
KINDS = (TOPIC, FLOW, TABLE)


def flow_graph(pipeline: Pipeline) -> Markup:
    nodes, edges = pipeline.nodes, pipeline.known_edges
    if not any(node.kind == FLOW for node in nodes):
        return Markup("")
    if len(nodes) > NODES_MAX:
        return Markup('<p class="muted">The graph has too many parts to be drawn.</p>')
    layout = laid_out(nodes, edges)
    boxes = _boxes(layout.columns)
    box_of = {
        cell.node: box
        for cells, column in zip(layout.columns, boxes, strict=True)
        for cell, box in zip(cells, column, strict=True)
        if cell.node is not None
    }
    states = {name: state.lower() for name, state in pipeline.flows}
    parts = []
    for column, row, next_row in layout.links:
        begin, end = layout.columns[column][row], layout.columns[column + 1][next_row]
        parts.append(_line(boxes[column][row], begin, boxes[column + 1][next_row], end))
    parts += [_line(box_of[begin], Cell(begin), box_of[end], Cell(end)) for begin, end in layout.backward]
    parts += [
        _drawn_box(node, box, states.get(node.name, "") if node.kind == FLOW else "")
        for node, box in box_of.items()
    ]
    counts = {kind: sum(node.kind == kind for node in nodes) for kind in {*KINDS, *(n.kind for n in nodes)}}
    label = ", ".join(plural(counts[kind], kind) for kind in sorted(counts, key=_rank))
    width = max(box.right for box in chain.from_iterable(boxes)) + 1
    height = layout.rows * ROW - (ROW - HEIGHT) + 2
    return svg("map graph", width, height, label, parts)


def _rank(kind: str) -> tuple[int, str]:
    return (KINDS.index(kind) if kind in KINDS else len(KINDS), kind)


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


def _boxes(columns: list[list[Cell[Node]]]) -> list[list[Box]]:
    """A column is as wide as its longest name, and stands in the middle of the height."""
    tallest, left, boxes = max(map(len, columns)), 1.0, []
    for cells in columns:
        letters = max(len(_shown(cell.node.name)) if cell.node else 0 for cell in cells)
        width = round(max(letters, LETTERS_MIN) * LETTER_WIDTH + 24)
        above = (tallest - len(cells)) / 2
        boxes.append([Box(left, 1 + (row + above) * ROW, width) for row in range(len(cells))])
        left += width + GAP
    return boxes


def _line(box: Box, begin: Cell[Node], to: Box, end: Cell[Node]) -> str:
    """From the right side of a box to the left side of another; straight through the place of one that only
    passes. What arrives has a tip."""
    x, y = box.right, box.middle
    path = f"M{box.left},{y} H{x}" if begin.node is None else f"M{x},{y}"
    bends = ((x + to.left) / 2,) * 2 if to.left > x else (x + GAP / 2, to.left - GAP / 2)
    path += f" C{bends[0]},{y} {bends[1]},{to.middle} {to.left},{to.middle}"
    x, y = to.left, to.middle
    tip = f'<path class="tip" d="M{x - 7},{y - 4} L{x},{y} L{x - 7},{y + 4} Z"/>'
    return f'<path class="edge" d="{path}"/>{"" if end.node is None else tip}'


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
