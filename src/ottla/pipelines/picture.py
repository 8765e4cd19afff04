"""A pipeline as a picture: for a terminal in letters and lines, and as SVG. Both say what their shapes mean.

What leads back, such as a flow that writes to a topic which it reads, is told below the picture.

Not obvious: the rows of every second column stand one line lower. So no line that leaves a box is ever on
top of one that arrives at another, and what is joined is joined.
"""

from html import escape
from itertools import pairwise
from typing import NamedTuple

from ottla.console.flow_layout import Layout, laid_out
from ottla.pipelines.dataflow import FLOW, SINK, TABLE, TOPIC, VIEW, Dataflow, Node

MARKS = {TOPIC: "({})", FLOW: "<{}>", TABLE: "[{}]", VIEW: "{{{}}}", SINK: "|{}|"}
LEGEND = {TOPIC: "(topic)", FLOW: "<flow>", TABLE: "[table]", VIEW: "{view}", SINK: "|other|"}
UP, DOWN, LEFT, RIGHT = 1, 2, 4, 8
LINES = {
    LEFT | RIGHT: "─", UP | DOWN: "│", DOWN | RIGHT: "┌", DOWN | LEFT: "┐", UP | RIGHT: "└", UP | LEFT: "┘",
    UP | DOWN | RIGHT: "├", UP | DOWN | LEFT: "┤", LEFT | RIGHT | DOWN: "┬", LEFT | RIGHT | UP: "┴",
    UP | DOWN | LEFT | RIGHT: "┼",
}  # fmt: skip
PLAIN = str.maketrans("─│┌┐└┘├┤┬┴┼▶", "-|++++++++" + "+>")
BOX_HEIGHT, ROW_HEIGHT, GAP, LETTER, PADDING, MARGIN = 30, 46, 70, 7.9, 24, 16
STYLE = """
text { font: 13px ui-monospace, Menlo, Consolas, monospace; fill: #1d2433; text-anchor: middle; }
.note { fill: #8c96a8; text-anchor: start; }
.box { fill: #f6f8fa; stroke: #8c96a8; }
.topic { fill: #fff4e0; stroke: #c98a1b; }
.flow { fill: #e6f0ff; stroke: #3b74d8; }
.table { fill: #e7f6ec; stroke: #2f8f5b; }
.view { stroke-dasharray: 4 3; }
.edge { fill: none; stroke: #8c96a8; stroke-width: 1.4; }
"""


def text(dataflow: Dataflow, width: int | None = None, *, is_plain: bool = False) -> str:
    """As much as fits into the width: flows that only make the table of their name are left out first, then
    all flows; at last it is a list."""
    for edges in (dataflow.edges, _edges(dataflow, named=True), _edges(dataflow, named=False)):
        layout = laid_out(_nodes(dataflow, edges), edges)
        lines = _drawn(layout)
        if width is None or max(map(len, lines), default=0) <= width:
            below = [_marked(begin) + " leads back to " + _marked(end) for begin, end in layout.backward]
            legend = "  ".join(LEGEND[kind] for kind in _kinds(dataflow, edges))
            shown = "\n".join([*lines, *([""] * bool(below)), *below, "", legend])
            return shown.translate(PLAIN) if is_plain else shown
    return "\n".join(_listed(dataflow))


def svg(dataflow: Dataflow, title: str) -> str:
    layout = laid_out(_nodes(dataflow, dataflow.edges), dataflow.edges)
    widths = [
        max((_box_width(cell.node.name) for cell in column if cell.node), default=0)
        for column in layout.columns
    ]
    left = [MARGIN + sum(widths[:column]) + column * GAP for column in range(len(widths))]
    tall = layout.rows * ROW_HEIGHT

    def middle(column: int, row: int) -> float:
        own = len(layout.columns[column]) * ROW_HEIGHT
        return MARGIN + (tall - own) / 2 + row * ROW_HEIGHT + ROW_HEIGHT / 2

    parts = []
    for column, row, next_row in layout.links:
        is_passing = layout.columns[column][row].node is None
        x1 = left[column] + widths[column]
        x2, y1, y2 = left[column + 1], middle(column, row), middle(column + 1, next_row)
        half = (x1 + x2) / 2
        start = f"M{left[column]:.1f},{y1:.1f} L{x1:.1f},{y1:.1f}" if is_passing else f"M{x1:.1f},{y1:.1f}"
        end = "" if layout.columns[column + 1][next_row].node is None else ' marker-end="url(#arrow)"'
        curve = f"C{half:.1f},{y1:.1f} {half:.1f},{y2:.1f} {x2:.1f},{y2:.1f}"
        parts.append(f'<path class="edge" d="{start} {curve}"{end}/>')
    for column, cells in enumerate(layout.columns):
        for row, cell in enumerate(cells):
            if cell.node is not None:
                hint = f"{cell.node.kind} {cell.node.name}"
                box = _box(cell.node, left[column], middle(column, row), widths[column])
                parts.append(f"<g><title>{escape(hint)}</title>{box}</g>")
    across = left[-1] + widths[-1] if left else 0.0
    below = _below(dataflow, layout, tall + MARGIN)
    width = max(across, below.across) + MARGIN
    return _page(title, width, below.bottom + MARGIN, "".join([*parts, *below.parts]))


class Below(NamedTuple):
    """What stands under a picture, and how far it reaches to the right and down."""

    parts: list[str]
    across: float
    bottom: float


def _below(dataflow: Dataflow, layout: Layout[Node], top: float) -> Below:
    """What leads back, a line each; then a box of each kind, with the name of the kind."""
    parts, across, y = [], 0.0, top
    for begin, end in layout.backward:
        y += ROW_HEIGHT / 2
        note = f"{begin.kind} {begin.name} leads back to {end.kind} {end.name}"
        parts.append(f'<text class="note" x="{MARGIN}" y="{y:.1f}">{escape(note)}</text>')
        across = max(across, MARGIN + len(note) * LETTER)
    x = float(MARGIN)
    if kinds := _kinds(dataflow, dataflow.edges):
        y += ROW_HEIGHT
    for kind in kinds:
        label = LEGEND[kind].strip("()<>[]{}|")
        parts.append(_box(Node(kind, label), x, y, _box_width(label)))
        x += _box_width(label) + MARGIN / 2
    return Below(parts, max(across, x - MARGIN / 2), y + BOX_HEIGHT / 2)


def _page(title: str, width: float, height: float, content: str) -> str:
    arrow = (
        '<marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#8c96a8"/></marker>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img"><title>{escape(title)}</title>'
        f"<style>{STYLE}</style><defs>{arrow}</defs>{content}</svg>\n"
    )


def _box_width(name: str) -> float:
    return len(name) * LETTER + PADDING


def _box(node: Node, x: float, y: float, width: float) -> str:
    return (
        f'<rect class="box {node.kind}" x="{x:.1f}" y="{y - BOX_HEIGHT / 2:.1f}" width="{width:.1f}" '
        f'height="{BOX_HEIGHT}" rx="{15 if node.kind == TOPIC else 4}"/>'
        f'<text x="{x + width / 2:.1f}" y="{y + 4.5:.1f}">{escape(node.name)}</text>'
    )


def _nodes(dataflow: Dataflow, edges: list[tuple[Node, Node]]) -> list[Node]:
    """Those of the edges in their order, and then what no flow touches."""
    return list(dict.fromkeys([*(node for edge in edges for node in edge), *dataflow.nodes]))


def _edges(dataflow: Dataflow, *, named: bool) -> list[tuple[Node, Node]]:
    """Without flows: those that have the name of their table, or all."""
    edges: list[tuple[Node, Node]] = []
    for flow in dataflow.flows:
        if not flow.reads or (named and flow.name != flow.writes.name):
            edges += [*((node, flow.node) for node in flow.reads), (flow.node, flow.writes)]
        else:
            edges += [(node, flow.writes) for node in flow.reads]
    return edges


def _drawn(layout: Layout[Node]) -> list[str]:
    labels = [[_marked(cell.node) if cell.node else "" for cell in column] for column in layout.columns]
    widths = [max(map(len, column), default=0) for column in labels]
    bent = [
        sorted({link.row for link in layout.links if link.column == column}) for column in range(len(widths))
    ]
    left, at = [], 0
    for column, width in enumerate(widths):
        left.append(at)
        at += width + 2 * len(bent[column]) + 4
    bits: dict[tuple[int, int], int] = {}
    letters: dict[tuple[int, int], str] = {}
    for column, cells in enumerate(labels):
        for row, label in enumerate(cells):
            y = 2 * row + column % 2
            letters |= {(left[column] + at, y): letter for at, letter in enumerate(label)}
    for column, row, next_row in layout.links:
        begin = left[column] + len(labels[column][row])
        track = left[column] + widths[column] + 1 + 2 * bent[column].index(row)
        end = left[column + 1] - 1
        y1, y2 = 2 * row + column % 2, 2 * next_row + (column + 1) % 2
        _join(bits, (begin, y1), (track, y1), (track, y2), (end, y2))
        if labels[column + 1][next_row]:
            letters[end, y2] = "▶"
    return _rows(bits, letters)


def _join(bits: dict[tuple[int, int], int], *corners: tuple[int, int]) -> None:
    for (x1, y1), (x2, y2) in pairwise(corners):
        if y1 == y2:
            for x in range(min(x1, x2), max(x1, x2) + 1):
                own = (RIGHT if x < max(x1, x2) else 0) | (LEFT if x > min(x1, x2) else 0)
                bits[x, y1] = bits.get((x, y1), 0) | own
        else:
            for y in range(min(y1, y2), max(y1, y2) + 1):
                own = (DOWN if y < max(y1, y2) else 0) | (UP if y > min(y1, y2) else 0)
                bits[x1, y] = bits.get((x1, y), 0) | own


def _rows(bits: dict[tuple[int, int], int], letters: dict[tuple[int, int], str]) -> list[str]:
    cells = {spot: LINES.get(directions, "─") for spot, directions in bits.items()} | letters
    height = max((y for _, y in cells), default=-1) + 1
    width = max((x for x, _ in cells), default=-1) + 1
    return ["".join(cells.get((x, y), " ") for x in range(width)).rstrip() for y in range(height)]


def _marked(node: Node) -> str:
    return MARKS[node.kind].format(node.name)


def _kinds(dataflow: Dataflow, edges: list[tuple[Node, Node]]) -> list[str]:
    """Those in the picture, for its legend."""
    drawn = {node.kind for node in _nodes(dataflow, edges)}
    return [kind for kind in LEGEND if kind in drawn]


def _listed(dataflow: Dataflow) -> list[str]:
    lines = []
    for flow in dataflow.flows:
        reads = ", ".join(f"{node.kind} {node.name}" for node in flow.reads) or "nothing"
        lines.append(f"flow {flow.name}: {reads} -> {flow.writes.kind} {flow.writes.name}")
    return lines
