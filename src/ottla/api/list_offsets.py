"""ListOffsets (key 2): offsets by time, and the ends of the log.

A timestamp of 0 or more asks for the first record at or after it. Negative ones have names: -1 latest (the
high watermark, or the last stable offset for read_committed), -2 earliest, -3 the record with the largest
timestamp (KIP-734), -4 the earliest kept locally (KIP-405: the same as earliest). -5 and -6 ask for the
last offset in tiered storage and the first that is not there yet (KIP-1005, KIP-1023): without tiered
storage, Kafka finds neither.

Only the leader answers. A new one may not know yet how much of what it began with is committed: until its
high watermark gets there, what lies beyond it, and where it is, is OFFSET_NOT_AVAILABLE (KIP-207). A follower
(replica id, on a connection that is proved to be its own, else CLUSTER_AUTHORIZATION_FAILED) asks about the
log, not about what is committed. Consumers are answered once it is certain that this broker led when it was
asked (`leadership_proof`). A partition that is named twice is INVALID_REQUEST, as in Kafka. Where a batch is
large, a worker looks for the time in it (`log/time_search`), and what is not in memory a worker reads first
(`log/cold`); what is not found in time is REQUEST_TIMED_OUT.

v1 offset and timestamp · v2 isolation level · v4 leader epochs · v6 flexible · v7 max timestamp · v8 -4 ·
v9 -5
v10 timeout · v11 -6
"""

from collections import Counter
from collections.abc import Generator
from functools import partial
from typing import TypeAlias

from ottla.api.call import Call
from ottla.api.leadership_proof import check_led, proven
from ottla.api.named_partitions import held_partitions
from ottla.api.needs import DESCRIBE, TOPIC
from ottla.api.worker_jobs import with_jobs
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.offset_times import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    READ_COMMITTED,
)
from ottla.broker.long_work import Steps
from ottla.log.cold import NOTHING_YET, ColdError, WarmUp
from ottla.log.time_search import LargeWalkError, Walk, offset_of_max_timestamp
from ottla.replication.partition import Partition
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

SINCE = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
NOT_AVAILABLE_SINCE = 5
BEYOND_END = {LATEST, MAX_TIMESTAMP}
NOT_FOUND = (-1, -1, -1)
SEARCH_MS_MAX = 30_000
Answers: TypeAlias = Generator[Walk | WarmUp | None, bool, ListOffsetsResponse]


class Done:
    """What workers have done for the answer about one partition."""

    def __init__(self) -> None:
        self.walks: list[Walk] = []
        self.warmth = NOTHING_YET

    def add(self, job: Walk | WarmUp) -> None:
        if isinstance(job, WarmUp):
            self.warmth = self.warmth.with_more(job.pieces)
        else:
            self.walks.append(job)


def list_offsets(call: Call, request: ListOffsetsRequest) -> Steps:
    named: dict[str, Counter[int]] = {}
    for topic in request.topics:
        times = named.setdefault(topic.name, Counter())
        for asked in topic.partitions:
            times[asked.partition_index] += 1
            yield
    respond = partial(_respond, call, request, named)
    if request.replica_id >= 0:
        return respond(call.now_ms)
    return proven(call, held_partitions(call.broker, named), respond)


def _respond(call: Call, request: ListOffsetsRequest, named: dict[str, Counter[int]], now_ms: int) -> Steps:
    deadline_ms = now_ms + max(request.timeout_ms, SEARCH_MS_MAX)
    return with_jobs(call, _answers(call, request, named, now_ms), deadline_ms)


def _answers(call: Call, request: ListOffsetsRequest, named: dict[str, Counter[int]], now_ms: int) -> Answers:
    response = ListOffsetsResponse()
    for topic in request.topics:
        answered = ListOffsetsTopicResponse(name=topic.name)
        response.topics.append(answered)
        is_allowed = call.allows(DESCRIBE, TOPIC, topic.name)
        for asked in topic.partitions:
            answer = ListOffsetsPartitionResponse(partition_index=asked.partition_index)
            answered.partitions.append(answer)
            if not is_allowed:
                answer.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                yield None
                continue
            if named[topic.name][asked.partition_index] > 1:
                answer.error_code = ErrorCode.INVALID_REQUEST
                continue
            done = Done()
            while (job := _answer(call, topic.name, asked, request, now_ms, done, answer)) is not None:
                if not (yield job):
                    answer.error_code = ErrorCode.REQUEST_TIMED_OUT
                    break
                done.add(job)
            yield None
    return response


def _answer(
    call: Call,
    topic: str,
    asked: ListOffsetsPartition,
    request: ListOffsetsRequest,
    now_ms: int,
    done: Done,
    answer: ListOffsetsPartitionResponse,
) -> Walk | WarmUp | None:
    """Fill in the answer; or return what a worker must do first."""
    try:
        if request.replica_id >= 0 and not call.may_act_as(request.replica_id, "ListOffsets"):
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        partition = call.broker.partitions.find(topic, asked.partition_index)
        partition.check_leader(asked.current_leader_epoch)
        if call.version < SINCE.get(asked.timestamp, 0) or asked.timestamp < EARLIEST_PENDING_UPLOAD:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        if request.replica_id >= 0:
            end, is_settled = partition.log.log_end_offset, True
        else:
            check_led(call.broker, partition, call.now_ms, now_ms)
            end = partition.visible_end(request.isolation_level == READ_COMMITTED)
            is_settled = partition.is_settled
        position = _look_up(partition, asked.timestamp, end, done)
        is_beyond = asked.timestamp in BEYOND_END or asked.timestamp >= 0
        if not is_settled and is_beyond and (position == NOT_FOUND or asked.timestamp == LATEST):
            raise ApiError(
                ErrorCode.OFFSET_NOT_AVAILABLE
                if call.version >= NOT_AVAILABLE_SINCE
                else ErrorCode.LEADER_NOT_AVAILABLE
            )
        answer.offset, answer.timestamp, answer.leader_epoch = position
    except LargeWalkError as large:
        return large.walk
    except ColdError as cold:
        return WarmUp(cold.pieces)
    except ApiError as error:
        answer.error_code = error.code
        if error.code == ErrorCode.CORRUPT_MESSAGE:
            call.broker.storage.report_damage(partition.topic_partition, error)
    except OSError as error:
        answer.error_code = call.broker.storage.failed(error)
    return None


def _look_up(partition: Partition, timestamp: int, end: int, done: Done) -> tuple[int, int, int]:
    """(offset, timestamp, leader epoch); for the ends of the log there is no timestamp."""
    log = partition.log
    if timestamp == LATEST:
        return end, -1, partition.leader_epoch
    if timestamp in {EARLIEST, EARLIEST_LOCAL}:
        return log.log_start_offset, -1, log.epochs.epoch_for(log.log_start_offset)
    if timestamp in {LATEST_TIERED, EARLIEST_PENDING_UPLOAD}:
        return NOT_FOUND
    if timestamp == MAX_TIMESTAMP:
        rows = log.segments.row
        position = offset_of_max_timestamp(rows, log.log_start_offset, done.walks, done.warmth)
    else:
        position = log.offset_for_timestamp(timestamp, done.walks, done.warmth)
    return position if position is not None and position[0] < end else NOT_FOUND
