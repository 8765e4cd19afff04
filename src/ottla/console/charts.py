"""Pictures as SVG: lines over time, small lines in tables, bars, and a map of partitions over brokers.

Sizes are attributes and colours are classes: the content security policy allows no styles in a page. Each
picture says in words what it shows, for those who do not see it.
"""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from markupsafe import Markup, escape

from ottla.console.cluster.history import Point
from ottla.console.cluster.snapshot import Snapshot
from ottla.console.flow_layout import laid_out
from ottla.console.pipelines import Part, Pipeline

NARROW, WIDE, HEIGHT = 490, 1020, 168  # widths that need no scaling on a usual screen
LEFT, RIGHT, TOP, BOTTOM = 58, 8, 8, 22
GAP_S = 90.0  # a line is not drawn over a longer time without values
SPAN_S_MIN = 120.0
SPARK_WIDTH, SPARK_HEIGHT = 96, 22
MAP_PARTITIONS_MAX = 400
BOX_WIDTH, BOX_HEIGHT, BOX_GAP, BOX_LETTERS = 210, 34, 90, 28


class Line(NamedTuple):
    name: str
    points: Sequence[Point]


def chart(lines: Sequence[Line], shown: Callable[[float], str], label: str, width: int = NARROW) -> Markup:
    """Lines over time, from zero up. `shown` writes a value."""
    points = [point for line in lines for point in line.points if point.value is not None]
    if len(points) < 2:
        return Markup('<p class="empty">Measuring. The first values come in a few seconds.</p>')
    end_s = max(point.time_s for point in points)
    begin_s = min(min(point.time_s for point in points), end_s - SPAN_S_MIN)
    top = nice_top(max(point.value or 0 for point in points))

    def x(time_s: float) -> float:
        return LEFT + (time_s - begin_s) / (end_s - begin_s) * (width - LEFT - RIGHT)

    def y(value: float) -> float:
        return TOP + (1 - value / top) * (HEIGHT - TOP - BOTTOM)

    parts = [*_rules(top, y, shown, width), *_times(begin_s, end_s, x)]
    for number, line in enumerate(lines, 1):
        for run in _runs(line.points):
            path = " ".join(f"{x(time_s):.1f},{y(value):.1f}" for time_s, value in run)
            if number == 1 and len(run) > 1:
                ends = f"{x(run[0][0]):.1f},{y(0):.1f} {path} {x(run[-1][0]):.1f},{y(0):.1f}"
                parts.append(f'<polygon class="fill f{number}" points="{ends}"/>')
            parts.append(f'<polyline class="line s{number}" points="{path}"/>')
    now = ", ".join(f"{line.name} {shown(_last(line.points))}" for line in lines)
    return _svg("chart", width, HEIGHT, f"{label}: {now} now", parts)


def spark(points: Sequence[Point], label: str) -> Markup:
    """A small line without scales."""
    values = [(point.time_s, point.value) for point in points if point.value is not None]
    if len(values) < 2:
        return Markup("")
    first_s, last_s = values[0][0], values[-1][0]
    top = max(max(value for _, value in values), 1)
    path = " ".join(
        f"{(time_s - first_s) / (last_s - first_s) * SPARK_WIDTH:.1f},"
        f"{(1 - value / top) * (SPARK_HEIGHT - 4) + 2:.1f}"
        for time_s, value in _thinned(values, SPARK_WIDTH // 2)
    )
    return _svg(
        "spark chart", SPARK_WIDTH, SPARK_HEIGHT, label, [f'<polyline class="line s1" points="{path}"/>']
    )


def bar(part: float | None, label: str, tone: str = "f1") -> Markup:
    """How much of a whole."""
    if part is None:
        return Markup("")
    width = max(0.0, min(1.0, part)) * 110
    parts = [
        '<rect width="110" height="8" rx="4"/>',
        f'<rect class="{tone}" width="{width:.1f}" height="8" rx="4"/>',
    ]
    return _svg("bar-cell", 110, 8, label, parts)


def partition_map(snapshot: Snapshot, topics: Iterable[str] | None = None) -> Markup:
    """A row for each broker, a column for each partition: who leads it, follows it, or has lost it."""
    names = list(snapshot.topics if topics is None else topics)
    columns = [(name, partition) for name in names for partition in snapshot.topics[name].partitions]
    columns = columns[:MAP_PARTITIONS_MAX]
    rows = sorted({*snapshot.brokers, *(broker for _, partition in columns for broker in partition.replicas)})
    if not columns or not rows:
        return Markup("")
    step, height = max(6.0, min(22.0, (WIDE - 70) / len(columns))), 18
    parts = []
    for row, broker in enumerate(rows):
        top = row * height
        parts.append(f'<text x="0" y="{top + 12}">broker {broker}</text>')
        for column, (name, partition) in enumerate(columns):
            if broker not in partition.replicas:
                continue
            kind, word = _role(snapshot, broker, partition.leader, partition.isr)
            title = escape(f"{name} {partition.number}: broker {broker} {word}")
            parts.append(
                f'<rect class="{kind}" x="{70 + column * step:.1f}" y="{top + 2}" width="{step - 1.5:.1f}" '
                f'height="{height - 5}" rx="2"><title>{title}</title></rect>'
            )
    label = f"{len(columns)} partitions over {len(rows)} brokers"
    return _svg("map", round(70 + len(columns) * step), len(rows) * height, label, parts)


def flow_graph(pipeline: Pipeline) -> Markup:
    """Topics and tables, and the flows between them, from left to right."""
    edges = list(pipeline.edges) or _edges_by_name(pipeline)
    states, parts = dict(pipeline.flows), []
    tables = [Part("table", table.name) for table in pipeline.tables]
    layout = laid_out([*(Part("flow", name) for name in sorted(states)), *tables], edges)
    if not layout.columns:
        return Markup("")
    step = BOX_HEIGHT + 10

    def spot(column: int, row: int) -> tuple[float, float]:
        above = (layout.rows - len(layout.columns[column])) * step / 2
        return column * (BOX_WIDTH + BOX_GAP), above + row * step

    for column, row, next_row in layout.links:
        (left, top), (x2, bottom) = spot(column, row), spot(column + 1, next_row)
        x1, y1, y2 = left + BOX_WIDTH, top + BOX_HEIGHT / 2, bottom + BOX_HEIGHT / 2
        middle = (x1 + x2) / 2
        passing = f"M{left},{y1} L{x1},{y1}" if layout.columns[column][row].node is None else f"M{x1},{y1}"
        parts.append(f'<path class="edge" d="{passing} C{middle},{y1} {middle},{y2} {x2},{y2}"/>')
    for column, cells in enumerate(layout.columns):
        for row, cell in enumerate(cells):
            if cell.node is not None:
                parts.append(_flow_box(cell.node, *spot(column, row), states))
    nodes = [cell.node for cells in layout.columns for cell in cells if cell.node is not None]
    counts = {kind: sum(node.kind == kind for node in nodes) for kind in ("topic", "flow", "table")}
    label = ", ".join(f"{count} {kind}s" for kind, count in counts.items())
    width = len(layout.columns) * (BOX_WIDTH + BOX_GAP) - BOX_GAP + 2
    return _svg("map graph", width, layout.rows * step, label, parts)


def _edges_by_name(pipeline: Pipeline) -> list[tuple[Part, Part]]:
    """Of a run that has not told them: sources are known, and a flow usually has the name of its table."""
    tables = {table.name for table in pipeline.tables}
    edges = [(Part("topic", source.topic), Part("flow", source.flow)) for source in pipeline.sources]
    flows = sorted({*(name for name, _ in pipeline.flows), *(source.flow for source in pipeline.sources)})
    return edges + [(Part("flow", flow), Part("table", flow)) for flow in flows if flow in tables]


def _flow_box(part: Part, x: float, y: float, states: dict[str, str]) -> str:
    state = states.get(part.name, "") if part.kind == "flow" else ""
    kind = "failed" if state == "FAILED" else part.kind
    shown = part.name if len(part.name) <= BOX_LETTERS else f"{part.name[: BOX_LETTERS - 1]}…"
    title = f"{part.kind} {part.name}{f': {state.lower()}' if state else ''}"
    return (
        f'<rect class="box {kind}" x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6">'
        f"<title>{escape(title)}</title></rect>"
        f'<text x="{x + 12}" y="{y + BOX_HEIGHT / 2 + 4}">{escape(shown)}</text>'
    )


def _role(snapshot: Snapshot, broker: int, leader: int, isr: tuple[int, ...]) -> tuple[str, str]:
    if broker not in snapshot.brokers:
        return "gone", "is not there"
    if broker == leader:
        return "leader", "leads"
    return ("replica", "follows") if broker in isr else ("late", "is not in sync")


def nice_top(value: float) -> float:
    """A round number that is not smaller."""
    if value <= 0:
        return 1.0
    size = 10.0 ** math.floor(math.log10(value))
    return next(step * size for step in (1, 2, 5, 10) if value <= step * size)


def _rules(
    top: float, y: Callable[[float], float], shown: Callable[[float], str], width: int
) -> Iterable[str]:
    for part in (0.0, 0.5, 1.0):
        at = y(top * part)
        yield f'<line class="rule" x1="{LEFT}" x2="{width - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
        yield f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{escape(shown(top * part))}</text>'


def _times(begin_s: float, end_s: float, x: Callable[[float], float]) -> Iterable[str]:
    for part, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end")):
        at_s = begin_s + part * (end_s - begin_s)
        clock = time.strftime("%H:%M:%S", time.gmtime(at_s))
        yield f'<text x="{x(at_s):.1f}" y="{HEIGHT - 5}" text-anchor="{anchor}">{clock}</text>'


def _runs(points: Sequence[Point]) -> Iterable[list[tuple[float, float]]]:
    """Stretches of values that are not too far apart."""
    run: list[tuple[float, float]] = []
    for time_s, value in points:
        if value is None or (run and time_s - run[-1][0] > GAP_S):
            if run:
                yield run
            run = []
        if value is not None:
            run.append((time_s, value))
    if run:
        yield run


def _thinned(values: list[tuple[float, float]], most: int) -> list[tuple[float, float]]:
    step = max(1, len(values) // most)
    return [*values[:-1:step], values[-1]]


def _last(points: Sequence[Point]) -> float:
    return next((point.value for point in reversed(points) if point.value is not None), 0.0)


def _svg(kind: str, width: float, height: float, label: str, parts: Iterable[str]) -> Markup:
    """`parts` are safe already; the label is not."""
    return Markup(  # noqa: S704
        f'<svg class="{kind}" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )
