"""The high watermarks of a broker's partitions, as its store writes them down."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ottla.base.ids import TopicPartition
from ottla.replication.partition import Partition


@dataclass(frozen=True, slots=True)
class HighWatermarks(Mapping[TopicPartition, int]):
    """The high watermarks of all partitions, made only when somebody reads them."""

    partitions: dict[TopicPartition, Partition]

    def __getitem__(self, id: TopicPartition) -> int:
        return self.partitions[id].high_watermark

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self.partitions)

    def __len__(self) -> int:
        return len(self.partitions)
