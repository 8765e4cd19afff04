"""Metrics as Prometheus reads them: the text format 0.0.4, or OpenMetrics 1.0.0.

There may be hundreds of thousands of samples, so the text is made in small pieces, and as little as possible
is done for each. (prometheus-client takes ten times as long for a sample, and makes all of the text at once;
a test has it read what is written here.)

OpenMetrics has the same samples under other headings: a counter is called without its `_total` there, one
that ends in `_count` cannot be one, and the end is said.
"""

from collections.abc import Iterable, Iterator
from itertools import accumulate, islice

from ottla.base.metrics import (
    BUCKETS,
    LABEL_ESCAPES,
    Family,
    Histogram,
    Kind,
    Labels,
    Metric,
    Value,
    label_text,
)

PIECE = 128  # samples, which take about 0.1 ms
HELP_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n"})
BOUNDS = [*(repr(2**power / 1e6) for power in range(BUCKETS - 1)), "+Inf"]


class Text:
    """Writes families down, one after the other."""

    def __init__(self, *, is_open_metrics: bool = False) -> None:
        self._is_open_metrics = is_open_metrics

    def pieces(self, families: Iterable[Family]) -> Iterator[str]:
        """The text, a few samples at a time."""
        for metric, samples in families:
            yield self._heading(metric)
            name, left = metric.name, iter(samples)
            while piece := "".join(
                [
                    f"{name}{{{labels}}} {value}\n"
                    if labels.__class__ is str and value.__class__ is int
                    else _line(metric, labels, value)
                    for labels, value in islice(left, PIECE)
                ]
            ):
                yield piece
        if self._is_open_metrics:
            yield "# EOF\n"

    def _heading(self, metric: Metric) -> str:
        name, kind, escapes = metric.name, metric.kind.value, HELP_ESCAPES
        if self._is_open_metrics:
            escapes = LABEL_ESCAPES
            if metric.kind is Kind.COUNTER:
                name, kind = name.removesuffix("_total"), kind if name.endswith("_total") else "unknown"
        return f"# HELP {name} {metric.help.translate(escapes)}\n# TYPE {name} {kind}\n"


def by_series(text: str) -> dict[str, float]:
    """The numbers in a text of the format 0.0.4, by the name and labels of each as they are written there."""
    lines = text.removesuffix("\n").split("\n")  # nothing else ends a line: it may be part of a group's name
    samples = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {series: float(number) for series, _, number in samples}


def _line(metric: Metric, labels: Labels, value: Value) -> str:
    text = labels if isinstance(labels, str) else label_text(metric.labels, labels)
    if metric.kind is Kind.HISTOGRAM:
        assert isinstance(value, Histogram), metric.name
        return "".join(_histogram_lines(metric.name, text, value))
    return f"{metric.name}{{{text}}} {value}\n" if text else f"{metric.name} {value}\n"


def _histogram_lines(name: str, labels: str, durations: Histogram) -> Iterator[str]:
    comma = f"{labels}," if labels else ""
    braces = f"{{{labels}}}" if labels else ""
    counts = list(accumulate(durations.counts))
    for bound, count in zip(BOUNDS, counts, strict=True):
        yield f'{name}_bucket{{{comma}le="{bound}"}} {count}\n'
    yield f"{name}_sum{braces} {durations.total_us / 1e6}\n"
    yield f"{name}_count{braces} {counts[-1]}\n"
