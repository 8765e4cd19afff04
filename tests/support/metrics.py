"""The metrics of a broker: of one without a process around it, or read over HTTP."""

import re
from collections.abc import Iterator
from typing import Any

from tests.support.http import get

from ottla.base.metrics import Family, Labels, Source
from ottla.broker.broker import Broker
from ottla.broker.metrics.sources import sources_of
from ottla.shell.metrics.text import Text, by_series

TOPICS = "kafka_server_brokertopicmetrics_"


def pieces_of(sources: list[Source], now_ms: int = 0) -> Iterator[str]:
    """The text that Prometheus would read."""

    def families() -> Iterator[Family]:
        for source in sources:
            yield from source.read(now_ms)

    return Text().pieces(families())


def shown_by(*sources: Source, now_ms: int = 0) -> dict[str, float]:
    """By name and labels, as Prometheus writes them."""
    return by_series("".join(pieces_of(list(sources), now_ms)))


def series_of(source: Source, now_ms: int = 0) -> dict[str, dict[tuple[str, ...], Any]]:
    """The samples of each metric, by the values of their labels: also those that are histograms."""
    return {
        metric.name: {label_values(labels): value for labels, value in samples}
        for metric, samples in source.read(now_ms)
    }


def label_values(labels: Labels) -> tuple[str, ...]:
    """Also of labels that are written already, where nothing in them is escaped."""
    return tuple(re.findall('="(.*?)"', labels)) if isinstance(labels, str) else labels


def metrics_of(broker: Broker, now_ms: int = 0) -> dict[str, float]:
    """All that the core shows."""
    return shown_by(*sources_of(broker), now_ms=now_ms)


def metrics_at(address: str) -> dict[str, float]:
    """The same of a broker that serves them at HOST:PORT."""
    page = get(address, "/metrics")
    assert page.status == 200, page
    return by_series(page.body.decode())


def traffic_of(broker: Broker, topic: str | None = None) -> dict[str, int]:
    """What BrokerTopicMetrics has counted, of a topic or of all: what is not zero, by short names."""
    end = "_total" if topic is None else f'_total{{topic="{topic}"}}'
    return {
        name.removeprefix(TOPICS).removesuffix(end): int(value)
        for name, value in metrics_of(broker).items()
        if name.startswith(TOPICS) and name.endswith(end) and value
    }
