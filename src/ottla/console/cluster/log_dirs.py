"""Log directories of brokers: how large, how full, what is in them."""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from ottla.base.command_error import CommandError
from ottla.base.errors import ErrorCode
from ottla.client.admin.refusals import check_answer
from ottla.client.admin.requests import Cluster
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse


class LogDirectory(NamedTuple):
    """`total` and `usable` are None where a broker does not say (before Kafka 3.3)."""

    broker: int
    path: str
    error: str
    total: int | None
    usable: int | None
    sizes: dict[tuple[str, int], int]

    @property
    def bytes(self) -> int:
        return sum(self.sizes.values())

    @property
    def used_part(self) -> float | None:
        """Of the whole disk, whoever uses it."""
        if not self.total or self.usable is None:
            return None
        return 1 - self.usable / self.total


def log_directories(cluster: Cluster, brokers: Iterable[int]) -> tuple[list[LogDirectory], dict[int, str]]:
    """Those of brokers that answer, and why others do not."""
    directories: list[LogDirectory] = []
    silent: dict[int, str] = {}
    for broker in brokers:
        try:
            answer = cluster.ask_broker(broker, DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse)
            check_answer(answer.error_code, "log directories")
        except CommandError as error:
            silent[broker] = str(error)
            continue
        directories += [
            LogDirectory(
                broker,
                result.log_dir,
                ErrorCode(result.error_code).name if result.error_code else "",
                result.total_bytes if result.total_bytes >= 0 else None,
                result.usable_bytes if result.usable_bytes >= 0 else None,
                {
                    (topic.name, partition.partition_index): partition.partition_size
                    for topic in result.topics
                    for partition in topic.partitions
                },
            )
            for result in answer.results
        ]
    return directories, silent


def topic_sizes(directories: Iterable[LogDirectory]) -> dict[str, int]:
    """On all brokers together, replicas included."""
    sizes: dict[str, int] = defaultdict(int)
    for directory in directories:
        for (topic, _), size in directory.sizes.items():
            sizes[topic] += size
    return dict(sizes)
