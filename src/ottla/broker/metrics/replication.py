"""How well the partitions of this broker are replicated."""

from collections.abc import Callable, Iterator, Mapping

from ottla.base.ids import TopicPartition
from ottla.base.metrics import Family, gauge
from ottla.controller.image import Image
from ottla.replication.partition import Partition


class ReplicationMetrics:
    LEADERS = gauge("kafka_server_replicamanager_leadercount", "Partitions that this broker leads.")
    PARTITIONS = gauge("kafka_server_replicamanager_partitioncount", "Partitions that are on this broker.")
    UNDER_REPLICATED = gauge(
        "kafka_server_replicamanager_underreplicatedpartitions",
        "Partitions that this broker leads, some replicas of which are not in sync.",
    )
    UNDER_MIN_ISR = gauge(
        "kafka_server_replicamanager_underminisrpartitioncount",
        "Partitions that this broker leads and that refuse acks=all, as too few replicas are in sync.",
    )

    def __init__(self, partitions: Mapping[TopicPartition, Partition], image: Image) -> None:
        self._partitions = partitions
        self._image = image

    def read(self, now_ms: int) -> Iterator[Family]:  # noqa: ARG002 - as every source
        led = [partition for partition in self._partitions.values() if partition.is_leader]
        yield self.LEADERS, [((), len(led))]
        yield self.PARTITIONS, [((), len(self._partitions))]
        yield (
            self.UNDER_REPLICATED,
            [((), _count(led, lambda partition: len(partition.isr) < len(partition.replicas)))],
        )
        yield self.UNDER_MIN_ISR, [((), _count(led, lambda partition: partition.is_under_min_isr))]


def _count(partitions: list[Partition], is_so: Callable[[Partition], bool]) -> int:
    return sum(map(is_so, partitions))
