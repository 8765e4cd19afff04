"""What can be measured of a broker: a metric is declared once, by name, kind, labels and help.

Counters are plain numbers on the objects that count: they begin at zero with the process and never go back.
A *source* is a class that declares metrics and, when it is read, says what they are at that moment:

    class Elections:
        UNCLEAN = counter("kafka_controller_controllerstats_uncleanleaderelections_total", "...")

        def read(self, now_ms: int) -> Iterator[Family]:
            yield self.UNCLEAN, [((), self._seat.unclean_elections)]

A sample is the values of the labels, in the order in which the metric names them, and a number or a
`Histogram`; without any values it is the sum over all labels. Samples are named lazily where there are many:
whoever reads them pauses in between, so what a sample is made of may be gone by then. Take the keys of a
dictionary first (`list(...)`), and leave out what is no longer there. Of partitions there may be ten thousand
in a dozen metrics each: their labels are written once for all of these (`label_text`).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol, TypeAlias

LABEL_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
BUCKETS: Final = 28  # of a histogram; the last one is for what takes longer than a minute (2**26 us)


class Kind(Enum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """`name` is the one that a query uses: that of a counter ends in `_total`, or, as Kafka's timers do, in
    `_count`."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()


def counter(name: str, help: str, *labels: str) -> Metric:  # noqa: A002 - as Prometheus calls it
    assert name.endswith(("_total", "_count")), name
    return Metric(name, Kind.COUNTER, help, labels)


def gauge(name: str, help: str, *labels: str) -> Metric:  # noqa: A002
    return Metric(name, Kind.GAUGE, help, labels)


def histogram(name: str, help: str, *labels: str) -> Metric:  # noqa: A002
    assert name.endswith("_seconds"), name
    return Metric(name, Kind.HISTOGRAM, help, labels)


@dataclass(slots=True)
class Histogram:
    """Durations, counted by powers of two: `counts[k]` are those of less than 2**k microseconds that are not
    counted before. The last count is of all that are longer."""

    counts: list[int] = field(default_factory=lambda: [0] * BUCKETS)
    total_us: int = 0

    def observe(self, duration_us: int) -> None:
        power = duration_us.bit_length()
        self.counts[power if power < BUCKETS else BUCKETS - 1] += 1
        self.total_us += duration_us


Labels: TypeAlias = tuple[str, ...] | str  # their values, or all of them as `label_text` writes them
Value: TypeAlias = int | float | Histogram
Sample: TypeAlias = tuple[Labels, Value]
Family: TypeAlias = tuple[Metric, Iterable[Sample]]


def label_text(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    """Labels as Prometheus writes them between braces."""
    pairs = zip(names, values, strict=True) if values else ()
    return ",".join([f'{name}="{value.translate(LABEL_ESCAPES)}"' for name, value in pairs])


class Source(Protocol):
    def read(self, now_ms: int) -> Iterator[Family]:
        """Each metric that it declares, once."""


def metrics_of(source: type) -> list[Metric]:
    """What a source declares."""
    return [value for value in vars(source).values() if isinstance(value, Metric)]
