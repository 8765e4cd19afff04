"""DescribeLogDirs (key 35): the folders that hold logs, and the size of each partition in them.

A directory whose disk failed is there with KAFKA_STORAGE_ERROR, and without partitions.

v2 flexible · v3 top-level error · v4 total and usable bytes of the volume · v5 cordoned
"""

from ottla.api.call import Call
from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.broker.long_work import LARGE, Steps
from ottla.log.log import Log
from ottla.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

MANY = 1_000  # partitions: the answer about more waits for its turn


def describe_log_dirs(call: Call, request: DescribeLogDirsRequest) -> Steps:
    store = call.broker.store
    yield LARGE if len(store.logs) > MANY else None
    wanted = None
    if request.topics is not None:
        wanted = {
            TopicPartition(topic.topic, index) for topic in request.topics for index in topic.partitions
        }
    results = []
    for directory in store.directories:
        if directory not in store.disks:
            results.append(_offline(directory))
            continue
        topics: dict[str, DescribeLogDirsTopic] = {}
        for topic_partition, log in sorted(store.logs.items()):
            yield
            if store.logs.get(topic_partition) is not log:
                continue  # deleted meanwhile
            if store.directory_of(topic_partition) == directory and (
                wanted is None or topic_partition in wanted
            ):
                topic = topics.setdefault(
                    topic_partition.topic, DescribeLogDirsTopic(name=topic_partition.topic)
                )
                topic.partitions.append(_describe(call, topic_partition, log))
        for topic_partition, move in sorted(store.moves.by_topic_partition.items()):
            if move.directory == directory and (wanted is None or topic_partition in wanted):
                topic = topics.setdefault(
                    topic_partition.topic, DescribeLogDirsTopic(name=topic_partition.topic)
                )
                future = DescribeLogDirsPartition(
                    partition_index=topic_partition.partition,
                    partition_size=move.size,
                    offset_lag=move.lag,
                    is_future_key=True,
                )
                topic.partitions.append(future)
        try:
            if directory not in store.disks:
                results.append(_offline(directory))
                continue
            total, usable = store.disks[directory].space(directory)
        except OSError as error:
            call.broker.storage.failed(error)
            results.append(_offline(directory))
            continue
        results.append(
            DescribeLogDirsResult(
                log_dir=directory, topics=list(topics.values()), total_bytes=total, usable_bytes=usable
            )
        )
    return DescribeLogDirsResponse(results=results)


def _offline(directory: str) -> DescribeLogDirsResult:
    return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=directory)


def _describe(call: Call, topic_partition: TopicPartition, log: Log) -> DescribeLogDirsPartition:
    partition = call.broker.partitions.get(topic_partition)
    lag = max(partition.high_watermark - log.log_end_offset, 0) if partition else 0
    return DescribeLogDirsPartition(
        partition_index=topic_partition.partition,
        partition_size=log.size,
        offset_lag=lag,
        is_future_key=False,
    )
