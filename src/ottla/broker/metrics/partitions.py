"""The partitions that this broker leads, as kafka_exporter names it; leaders alone show them."""

from collections.abc import Callable, Iterator, Mapping

from ottla.base.ids import TopicPartition
from ottla.base.metrics import Family, Metric, Sample, gauge
from ottla.broker.metrics.label_limits import LabelLimits
from ottla.controller.image import Image
from ottla.replication.partition import Partition


def _of_partitions(name: str, help: str) -> Metric:  # noqa: A002
    return gauge(f"kafka_topic_partition_{name}", help, "topic", "partition")


class PartitionMetrics:
    PARTITIONS = gauge(
        "kafka_topic_partitions", "Partitions of a topic, by the leader of its first partition.", "topic"
    )
    CURRENT_OFFSET = _of_partitions("current_offset", "Where a consumer's view of a partition ends.")
    OLDEST_OFFSET = _of_partitions("oldest_offset", "The first offset of a partition.")
    LEADER = _of_partitions("leader", "The broker that leads a partition.")
    REPLICAS = _of_partitions("replicas", "Replicas of a partition.")
    IN_SYNC = _of_partitions("in_sync_replica", "Replicas of a partition that are in sync.")
    IS_PREFERRED = _of_partitions("leader_is_preferred", "1 if the first of its replicas leads a partition.")
    IS_UNDER_REPLICATED = _of_partitions(
        "under_replicated_partition", "1 if some replicas of a partition are not in sync."
    )

    def __init__(
        self, partitions: Mapping[TopicPartition, Partition], image: Image, limits: LabelLimits
    ) -> None:
        self._partitions = partitions
        self._image = image
        self._limits = limits

    def read(self, now_ms: int) -> Iterator[Family]:  # noqa: ARG002 - as every source
        yield self.PARTITIONS, self._counts()
        led = {name: partition for name, partition in self._partitions.items() if partition.is_leader}
        labels, partitions = self._limits.rows(led)

        def samples(value: Callable[[Partition], int]) -> Iterator[Sample]:
            return zip(labels, map(value, partitions), strict=True)

        yield self.CURRENT_OFFSET, samples(lambda partition: partition.high_watermark)
        yield self.OLDEST_OFFSET, samples(lambda partition: partition.log.log_start_offset)
        yield self.LEADER, samples(lambda partition: partition.leader)
        yield self.REPLICAS, samples(lambda partition: len(partition.replicas))
        yield self.IN_SYNC, samples(lambda partition: len(partition.isr))
        yield self.IS_PREFERRED, samples(_is_preferred)
        yield self.IS_UNDER_REPLICATED, samples(lambda partition: int(partition.is_under_replicated))

    def _counts(self) -> Iterator[Sample]:
        for name, topic in list(self._image.topics.items()):
            first = self._partitions.get(TopicPartition(name, 0))
            if first is not None and first.is_leader and self._limits.has_own(name):
                yield (name,), len(topic.assignment)


def _is_preferred(partition: Partition) -> int:
    return int(partition.replicas[:1] == (partition.leader,))
