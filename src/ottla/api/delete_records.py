"""DeleteRecords (key 21): everything before an offset goes; -1 means up to the high watermark.

It is answered when all replicas in sync have let go of it (Kafka's low watermark), or the time is up. A new
leader deletes nothing before it knows how much is committed (`leadership_proof`). Of a partition that is
named twice the last offset counts.

v2 flexible
"""

from dataclasses import dataclass, field
from functools import partial

from ottla.api.call import Call
from ottla.api.leadership_proof import check_led, proven
from ottla.api.named_partitions import by_topic, held_partitions
from ottla.api.needs import DELETE, TOPIC
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import INTERNAL_TOPICS
from ottla.broker.long_work import TO_BE_FINISHED, Steps
from ottla.broker.parked import Key, Parked
from ottla.replication.partition import Partition
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)


@dataclass(slots=True)
class Deletion:
    """One request on its way: what was answered so far, and where replicas still have what shall go."""

    response: DeleteRecordsResponse = field(default_factory=DeleteRecordsResponse)
    waiting: list[tuple[Partition, int, DeleteRecordsPartitionResult]] = field(default_factory=list)

    def ready(self, _key: Key, _now_ms: int) -> DeleteRecordsResponse | None:
        still = []
        for partition, start, result in self.waiting:
            if not partition.is_leader:
                result.error_code, result.low_watermark = ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
            elif partition.low_watermark < start:
                still.append((partition, start, result))
            else:
                result.low_watermark = partition.low_watermark
        self.waiting = still
        return None if still else self.response

    def expire(self, _now_ms: int) -> DeleteRecordsResponse:
        for _, _, result in self.waiting:
            result.error_code, result.low_watermark = ErrorCode.REQUEST_TIMED_OUT, -1
        return self.response


def delete_records(call: Call, request: DeleteRecordsRequest) -> Steps:
    named = yield from by_topic(
        (topic.name, asked.partition_index, asked) for topic in request.topics for asked in topic.partitions
    )
    partitions = held_partitions(call.broker, named)
    return proven(call, partitions, partial(_delete_all, call, request, named), settled=True)


def _delete_all(
    call: Call,
    request: DeleteRecordsRequest,
    named: dict[str, dict[int, DeleteRecordsPartition]],
    now_ms: int,
) -> Steps:
    yield TO_BE_FINISHED
    ongoing = Deletion()
    for topic, partitions in named.items():
        results: list[DeleteRecordsPartitionResult] = []
        ongoing.response.topics.append(DeleteRecordsTopicResult(name=topic, partitions=results))
        is_allowed = call.allows(DELETE, TOPIC, topic)
        for asked in partitions.values():
            results.append(_delete(call, ongoing, topic, asked, now_ms) if is_allowed else _refused(asked))
            yield
    if ongoing.ready(None, now_ms) is not None:
        return ongoing.response
    return Parked(
        keys=tuple(dict.fromkeys(partition.topic_partition for partition, _, _ in ongoing.waiting)),
        deadline_ms=call.now_ms + max(request.timeout_ms, 0),
        ready=ongoing.ready,
        expire=ongoing.expire,
    )


def _refused(asked: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=asked.partition_index,
        low_watermark=-1,
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    )


def _delete(
    call: Call, ongoing: Deletion, topic: str, asked: DeleteRecordsPartition, now_ms: int
) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=-1)
    try:
        if topic in INTERNAL_TOPICS:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        partition = call.broker.partitions.find(topic, asked.partition_index)
        partition.check_leader()
        check_led(call.broker, partition, call.now_ms, now_ms)
        if not partition.is_settled:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if "delete" not in partition.log.config.cleanup_policy:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION, "Records can be deleted where cleanup.policy has delete."
            )
        ongoing.waiting.append((partition, partition.delete_records(asked.offset), result))
    except ApiError as error:
        result.error_code = error.code
    except OSError as error:
        result.error_code = call.broker.storage.failed(error)
    return result
