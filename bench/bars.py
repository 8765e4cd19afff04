"""Bars as SVG: panels below each other, cases in a panel, a bar for each peer.

A bar ends at the median; a thin line shows between what the rounds lay. Colours follow what the reader's
system says of light and dark, also where the picture is an image in a page.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, LEFT, RIGHT = 900, 310, 110
BAR, GAP, CASE_GAP, PANEL_GAP = 15, 3, 13, 34
TOP, TITLE = 66, 30
LOG_FROM = 40.0  # times that the largest is the smallest: then each step is tenfold

STYLE = """
text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1c1d1b; }
.title { font-size: 17px; font-weight: 600; } .panel { font-weight: 600; } .muted { fill: #5c605a; }
.ground { fill: #ffffff; } .rule { stroke: #d9d9d3; } .range { stroke: #1c1d1b; stroke-width: 1.2; }
.s0 { fill: #12877c; } .s1 { fill: #c9752b; } .s2 { fill: #7a80d6; } .s3 { fill: #8a8d85; }
@media (prefers-color-scheme: dark) {
text { fill: #e8e9e5; } .muted { fill: #a2a69e; } .ground { fill: #161716; } .rule { stroke: #353833; }
.range { stroke: #e8e9e5; }
.s0 { fill: #3fb3a5; } .s1 { fill: #e39a55; } .s2 { fill: #9aa0f5; } .s3 { fill: #757a72; }
}
"""


@dataclass(frozen=True)
class Bar:
    peer: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Panel:
    """`cases` are names with the bars of each; `is_more_better` is said beside the title."""

    title: str
    unit: str
    is_more_better: bool
    cases: Sequence[tuple[str, Sequence[Bar]]]

    @property
    def height(self) -> int:
        bars = sum(len(bars) for _, bars in self.cases)
        return TITLE + bars * (BAR + GAP) + len(self.cases) * CASE_GAP


def shown(value: float) -> str:
    """Three digits that count, and no more zeros than needed."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def draw(title: str, note: str, peers: Sequence[str], panels: Sequence[Panel]) -> str:
    height = TOP + sum(panel.height + PANEL_GAP for panel in panels)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="ground" width="{WIDTH}" height="{height}" rx="6"/>',
        f'<text class="title" x="16" y="28">{escape(title)}</text>',
        f'<text class="muted" x="16" y="48">{escape(note)}</text>',
        *_legend(peers),
    ]
    top = TOP
    for panel in panels:
        parts += _panel(panel, peers, top)
        top += panel.height + PANEL_GAP
    return "\n".join([*parts, "</svg>", ""])


def _legend(peers: Sequence[str]) -> list[str]:
    parts, x = [], WIDTH - 16
    for number, peer in reversed(list(enumerate(peers))):
        x -= 8 * len(peer) + 6
        parts.append(f'<text x="{x}" y="28">{escape(peer)}</text>')
        x -= 18
        parts.append(f'<rect class="s{number}" x="{x}" y="17" width="12" height="12" rx="2"/>')
        x -= 12
    return parts


class _Scale:
    """Where a value lies. From zero, or, where values differ very much, in powers of ten."""

    def __init__(self, bars: Sequence[Bar]) -> None:
        values = [bar.value for bar in bars if bar.value > 0] or [1.0]
        self.top = max([bar.high for bar in bars] + values)
        self.is_log = max(values) / min(values) > LOG_FROM
        self._bottom = 10 ** math.floor(math.log10(min(values)) - 0.3)

    def x(self, value: float) -> float:
        if self.is_log:
            wide = math.log10(self.top / self._bottom)
            share = math.log10(max(value, self._bottom) / self._bottom) / wide
        else:
            share = max(value, 0.0) / self.top
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def steps(self) -> list[float]:
        if self.is_log:
            first, last = math.log10(self._bottom), math.log10(self.top)
            return [10.0**power for power in range(round(first), math.floor(last) + 1)]
        return [self.top * quarter / 4 for quarter in range(5)]


def _panel(panel: Panel, peers: Sequence[str], top: int) -> list[str]:
    scale = _Scale([bar for _, bars in panel.cases for bar in bars])
    better = "more is better" if panel.is_more_better else "less is better"
    more = "; each line is ten times the one before" if scale.is_log else ""
    parts = [
        f'<text class="panel" x="16" y="{top + 14}">{escape(panel.title)}</text>',
        f'<text class="muted" x="{LEFT}" y="{top + 14}">{escape(panel.unit)}, {better}{more}</text>',
    ]
    y, end = top + TITLE, top + panel.height
    parts += [
        f'<line class="rule" x1="{scale.x(step):.1f}" x2="{scale.x(step):.1f}" y1="{y - 6}" y2="{end - 6}"/>'
        for step in scale.steps()
    ]
    for case, bars in panel.cases:
        middle = y + len(bars) * (BAR + GAP) / 2 + 3
        parts.append(f'<text x="{LEFT - 12}" y="{middle:.1f}" text-anchor="end">{escape(case)}</text>')
        for bar in bars:
            parts += _bar(bar, peers.index(bar.peer), scale, y)
            y += BAR + GAP
        y += CASE_GAP
    return parts


def _bar(bar: Bar, number: int, scale: _Scale, y: float) -> list[str]:
    x, low, high = (scale.x(value) for value in (bar.value, bar.low, bar.high))
    parts = [
        f'<rect class="s{number}" x="{LEFT}" y="{y}" width="{max(x - LEFT, 1):.1f}" height="{BAR}" rx="2"/>'
    ]
    if high - low > 2:
        parts.append(
            f'<line class="range" x1="{low:.1f}" x2="{high:.1f}" y1="{y + BAR / 2}" y2="{y + BAR / 2}"/>'
        )
    parts.append(f'<text x="{max(x, high) + 6:.1f}" y="{y + BAR - 3}">{shown(bar.value)}</text>')
    return parts
