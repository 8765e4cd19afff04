"""The metrics of a broker without a process around it."""

import re
from collections.abc import Iterator

from ottla.base.metrics import Family, Labels, Source
from ottla.broker.broker import Broker
from ottla.broker.metrics.sources import sources_of
from ottla.shell.metrics.text import Text

TOPICS = "kafka_server_brokertopicmetrics_"


def pieces_of(sources: list[Source], now_ms: int = 0) -> Iterator[str]:
    """The text that Prometheus would read."""

    def families() -> Iterator[Family]:
        for source in sources:
            yield from source.read(now_ms)

    return Text().pieces(families())


def label_values(labels: Labels) -> tuple[str, ...]:
    """Also of labels that are written already, where nothing in them is escaped."""
    return tuple(re.findall('="(.*?)"', labels)) if isinstance(labels, str) else labels


def metrics_of(broker: Broker, now_ms: int = 0) -> dict[str, float]:
    """By name and labels, as Prometheus writes them."""
    lines = "".join(pieces_of(sources_of(broker), now_ms)).splitlines()
    samples = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in samples}


def traffic_of(broker: Broker, topic: str | None = None) -> dict[str, int]:
    """What BrokerTopicMetrics has counted, of a topic or of all: what is not zero, by short names."""
    end = "_total" if topic is None else f'_total{{topic="{topic}"}}'
    return {
        name.removeprefix(TOPICS).removesuffix(end): int(value)
        for name, value in metrics_of(broker).items()
        if name.startswith(TOPICS) and name.endswith(end) and value
    }
