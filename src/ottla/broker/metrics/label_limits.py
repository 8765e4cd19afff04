"""How many series there may be: of which topics and partitions there are metrics.

Which topics have series of their own is known where they are counted (`broker/traffic`): those that were here
first, and no others while they stay. All others are summed up as the topic `(others)`.
"""

from collections.abc import Mapping
from typing import Final, TypeVar

from ottla.base.ids import TopicPartition
from ottla.broker.settings import Settings
from ottla.broker.traffic import Traffic

OTHERS: Final = "(others)"  # which no topic can be called
T = TypeVar("T")


def topic_label(topic: str) -> str:
    """As it is written: nothing in the name of a topic needs to be escaped."""
    return f'topic="{topic}"'


class LabelLimits:
    """One for each scrape: it writes the labels of a partition once for all metrics that have them."""

    def __init__(self, settings: Settings, traffic: Traffic) -> None:
        self._settings = settings
        self._traffic = traffic
        self._texts: dict[TopicPartition, str] = {}

    @property
    def has_partitions(self) -> bool:
        """Are there series of single partitions?"""
        return self._settings.metrics_config.partitions_enable

    @property
    def has_others(self) -> bool:
        """Are there topics that have no series of their own?"""
        return self._traffic.left_out > 0

    def has_own(self, topic: str) -> bool:
        return topic in self._traffic.topics

    def rows(self, here: Mapping[TopicPartition, T]) -> tuple[list[str], list[T]]:
        """Those of `here` that have series of their own: their labels `topic` and `partition`, as they are
        written, and what they are. (Not pairs: ten thousand new objects would set off the collector.)"""
        labels, things = list[str](), list[T]()
        if not self.has_partitions:
            return labels, things
        topics, texts = self._traffic.topics, self._texts
        for topic_partition, thing in here.items():
            topic, index = topic_partition
            if topic not in topics:
                continue
            text = texts.get(topic_partition)
            if text is None:
                text = texts[topic_partition] = f'{topic_label(topic)},partition="{index}"'
            labels.append(text)
            things.append(thing)
        return labels, things
