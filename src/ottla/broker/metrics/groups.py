"""The groups that this broker coordinates, each for itself: its members, where it is, and how far behind.

The names are those of kafka_exporter, and so is what they say, but for two things: a group has them whether
it has members or not, and a lag is not below 0. (It would be where a group has committed more since the
leader of a partition was asked where that ends.)
"""

from collections.abc import Iterator
from itertools import tee
from typing import Final, NamedTuple

from ottla.base.ids import TopicPartition
from ottla.base.metrics import Family, Sample, gauge, label_text
from ottla.broker.coordinators import Coordinators
from ottla.broker.group_lag import GroupLag, Watched
from ottla.broker.groups import Groups
from ottla.broker.metrics.label_limits import OTHERS
from ottla.broker.metrics_config import MetricsConfig
from ottla.broker.settings import Settings

UNKNOWN: Final = -1


class Row(NamedTuple):
    """What a group has committed in a topic: of each partition the labels as they are written, the offset and
    the lag, and the sums. Of topics beyond the limit there are only sums."""

    labels: str
    partitions: list[tuple[str, int, int]]
    offset_sum: int
    lag_sum: int


class GroupMetrics:
    LEFT_OUT = gauge(
        "ottla_metrics_groups_left_out",
        "Groups that have no metrics of their own, as there are more than ottla.metrics.groups.max, or as"
        " their names are longer than 255 characters.",
    )
    MEMBERS = gauge("kafka_consumergroup_members", "Members of a group.", "consumergroup")
    CURRENT_OFFSET = gauge(
        "kafka_consumergroup_current_offset",
        "The offset that a group has committed for a partition.",
        "consumergroup", "topic", "partition",
    )  # fmt: skip
    LAG = gauge(
        "kafka_consumergroup_lag",
        "How far a group is behind the high watermark of a partition that it has committed an offset for; -1"
        " if the leader, which is asked every ottla.metrics.lag.interval.ms, has not said where that is.",
        "consumergroup", "topic", "partition",
    )  # fmt: skip
    CURRENT_OFFSET_SUM = gauge(
        "kafka_consumergroup_current_offset_sum",
        "The offsets that a group has committed for the partitions of a topic, summed up.",
        "consumergroup", "topic",
    )  # fmt: skip
    LAG_SUM = gauge(
        "kafka_consumergroup_lag_sum",
        "How far a group is behind in all partitions of a topic whose ends are known; -1 if none is.",
        "consumergroup", "topic",
    )  # fmt: skip

    def __init__(self, coordinators: Coordinators, settings: Settings, lag: GroupLag) -> None:
        self._coordinators = coordinators
        self._settings = settings
        self._lag = lag

    @property
    def _groups(self) -> Groups | None:
        return self._coordinators.groups_here

    @property
    def _config(self) -> MetricsConfig:
        return self._settings.metrics_config

    def read(self, now_ms: int) -> Iterator[Family]:
        shown = self._lag.watch(now_ms)
        yield self.LEFT_OUT, [((), self._lag.left_out)]
        yield self.MEMBERS, self._members(shown)
        of_offsets, of_lags, of_offset_sums, of_lag_sums = tee(self._rows(shown), 4)
        if self._config.partitions_enable:
            yield self.CURRENT_OFFSET, (
                (labels, offset) for row in of_offsets for labels, offset, _ in row.partitions
            )  # fmt: skip
            yield self.LAG, ((labels, lag) for row in of_lags for labels, _, lag in row.partitions)
        else:
            yield from ((metric, ()) for metric in (self.CURRENT_OFFSET, self.LAG))
        yield self.CURRENT_OFFSET_SUM, ((row.labels, row.offset_sum) for row in of_offset_sums)
        yield self.LAG_SUM, ((row.labels, row.lag_sum) for row in of_lag_sums)

    def _members(self, shown: Watched) -> Iterator[Sample]:
        for index, group_id in shown:
            group = self._groups.group(index, group_id) if self._groups is not None else None
            if group is not None:
                yield (group_id,), len(group.members)

    def _rows(self, shown: Watched) -> Iterator[Row]:
        topics = set[str]()  # that have series of their own
        for index, group_id in shown:
            others = list[Row]()
            for topic, offsets in self._groups.committed_offsets(index, group_id) if self._groups else ():
                row = self._row(group_id, topic, offsets)
                if topic in topics or len(topics) < self._config.topics_max:
                    topics.add(topic)
                    yield row
                else:
                    others.append(row)
            if others:
                lag_sum = _sum([row.lag_sum for row in others])
                labels = _labels(group_id, OTHERS)
                yield Row(labels, [], sum(row.offset_sum for row in others), lag_sum)

    def _row(self, group_id: str, topic: str, offsets: dict[int, int]) -> Row:
        end_of, has_partitions = self._lag.end_of, self._config.partitions_enable
        partitions, lags, labels = list[tuple[str, int, int]](), list[int](), _labels(group_id, topic)
        for index, offset in offsets.items():
            end = end_of(TopicPartition(topic, index))
            lag = UNKNOWN if end is None else max(end - offset, 0)
            lags.append(lag)
            if has_partitions:
                partitions.append((f'{labels},partition="{index}"', offset, lag))
        return Row(labels, partitions, sum(offsets.values()), _sum(lags))


def _labels(group_id: str, topic: str) -> str:
    return label_text(("consumergroup", "topic"), (group_id, topic))


def _sum(lags: list[int]) -> int:
    """Of those that are known."""
    known_lags = [lag for lag in lags if lag != UNKNOWN]
    return sum(known_lags) if known_lags else UNKNOWN
