"""The followers of one leader on this broker: what they ask it for, and what its answers do to their logs.

Rules:

1. One request is under way at a time. It names, for each partition, the leader epoch we know, where our log
   ends and the epoch of its last record; the leader compares, and says where our logs part before it gives
   anything (KIP-320, KIP-595). We cut there and ask again, until they match.
2. An answer for another epoch or another end than the partition has by now is about a log that is no more,
   and is dropped.
3. To ask for an offset is to say that all before it is held. So nothing more is asked for while a log that
   must sync (flush.messages) has not.
4. Where the leader begins after our end, there is nothing to go on from: ask where, and start over there.
5. A log whose disk fails under an answer costs its own partition, which is followed no more.
6. After an error a partition rests, twice as long each time, up to replica.fetch.backoff.ms; if there was no
   answer at all, everything does.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.files import is_shortage
from ottla.base.ids import TopicPartition
from ottla.base.offset_times import EARLIEST
from ottla.log.directories import LogDirectoryError
from ottla.replication.fetch_requests import Asked, FetchRequests, Key
from ottla.replication.partition import Effects, Partition
from ottla.replication.sessions import INITIAL_EPOCH
from ottla.wire.messages.fetch import FetchRequest, FetchResponse, PartitionData, ReplicaState
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

log = logging.getLogger(__name__)

FIRST_REST_MS = 25
SESSION_ERRORS = {
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a fetch asks for, from the configuration."""

    wait_ms_max: int = 500
    bytes_min: int = 1
    bytes_max: int = 10 << 20
    partition_bytes_max: int = 1 << 20
    backoff_ms: int = 1_000


@dataclass(slots=True, eq=False)
class Followed:
    partition: Partition
    rests_until_ms: int = 0
    failures: int = 0
    is_lost: bool = False  # its log ends before the leader's begins
    lag: int = 0  # records that were committed at the leader and not here, by its last answer

    @property
    def key(self) -> Key:
        return self.partition.topic_id, self.partition.topic_partition.partition

    def asked(self, max_bytes: int) -> Asked:
        log = self.partition.log
        return Asked(
            self.partition.leader_epoch,
            log.log_end_offset,
            log.latest_epoch,
            log.log_start_offset,
            max_bytes,
        )


@dataclass(slots=True)
class Progress:
    """What an answer did: what follows from it for partitions, how much of each arrived, and those whose disk
    failed."""

    effects: list[tuple[Partition, Effects]] = field(default_factory=list)
    bytes: dict[TopicPartition, int] = field(default_factory=dict)
    failed: dict[TopicPartition, LogDirectoryError] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Fetcher:
    """Everything this broker follows of one leader."""

    broker_id: int
    leader: int
    limits: Limits
    is_throttled: Callable[[Partition, int], bool] = lambda _partition, _now_ms: False
    on_error: Callable[[str], None] = lambda _name: None  # told what a leader answers, by Kafka's name
    followed: dict[TopicPartition, Followed] = field(default_factory=dict)
    by_key: dict[Key, Followed] = field(default_factory=dict)
    requests: FetchRequests = field(default_factory=FetchRequests)
    unsafe: dict[TopicPartition, None] = field(default_factory=dict)
    _news: dict[TopicPartition, None] = field(default_factory=dict)  # to be looked at before the next fetch
    _gone: dict[Key, None] = field(default_factory=dict)
    is_waiting: bool = False
    vouched_ms: int | None = None  # when a fetch was last sent that the leader may count on
    rests_until_ms: int = 0
    failures: int = 0

    # -- what is followed -------------------------------------------------------------------------

    def follow(self, partition: Partition) -> None:
        """Begin to follow, or go on in another epoch."""
        topic_partition = partition.topic_partition
        followed = self.followed.get(topic_partition)
        if followed is None or followed.partition is not partition:
            self.drop(topic_partition)
            followed = self.followed[topic_partition] = Followed(partition)
            self.by_key[followed.key] = followed
        followed.rests_until_ms, followed.failures, followed.is_lost = 0, 0, False
        self._gone.pop(followed.key, None)
        self._news[topic_partition] = None

    def drop(self, topic_partition: TopicPartition) -> None:
        gone = self.followed.pop(topic_partition, None)
        if gone is not None:
            del self.by_key[gone.key]
            self._gone[gone.key] = None
            self._news.pop(topic_partition, None)
            self.unsafe.pop(topic_partition, None)

    def next_ms(self) -> int | None:
        """When `next_request` may have one, as far as only time is missing."""
        if self.is_waiting or self.unsafe or not self.followed:
            return None
        if not self.requests.is_full or not self._news:
            return self.rests_until_ms
        return max(self.rests_until_ms, min(self.followed[name].rests_until_ms for name in self._news))

    # -- asking -----------------------------------------------------------------------------------

    def next_request(self, now_ms: int, broker_epoch: int) -> FetchRequest | ListOffsetsRequest | None:
        """What to ask the leader now; then comes `on_answer`, once."""
        self.on_synced()
        if self.is_waiting or self.unsafe or now_ms < self.rests_until_ms or not self.followed:
            return None
        news = [self.followed[topic_partition] for topic_partition in sorted(self._news)]
        lost = [followed for followed in news if followed.is_lost and followed.rests_until_ms <= now_ms]
        request: FetchRequest | ListOffsetsRequest | None
        request = self._ask_where(lost) if lost else self._fetch(now_ms, broker_epoch)
        if request is not None:
            self.is_waiting = True
            if isinstance(request, FetchRequest) and request.session_epoch != INITIAL_EPOCH:
                self.vouched_ms = max(now_ms, self.vouched_ms or 0)
        return request

    def on_synced(self) -> None:
        for topic_partition in list(self.unsafe):
            if _is_safe(self.followed[topic_partition].partition):
                del self.unsafe[topic_partition]

    def _fetch(self, now_ms: int, broker_epoch: int) -> FetchRequest | None:
        if self.requests.is_full:
            self._news = dict.fromkeys(self.followed)
        looked_at = sorted(self._news)
        wanted, gone = [], list(self._gone)
        self._news, self._gone = {}, {}
        for topic_partition in looked_at:
            followed = self.followed[topic_partition]
            if followed.rests_until_ms > now_ms or self.is_throttled(followed.partition, now_ms):
                self._news[topic_partition] = None
                gone.append(followed.key)
            else:
                wanted.append((followed.key, followed.asked(self.limits.partition_bytes_max)))
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=self.broker_id, replica_epoch=broker_epoch),
            max_wait_ms=self.limits.wait_ms_max,
            min_bytes=self.limits.bytes_min,
            max_bytes=self.limits.bytes_max,
        )
        self.requests.fill(request, wanted, gone)
        if not self.requests.asked:
            self.requests.reset()  # the leader ends a session that wants nothing
            self._rest_for_throttled(now_ms)
            return None
        if self._news:
            # Whoever rests is not asked for: come back in time.
            until = min(self._due_ms(resting, now_ms) for resting in self._news)
            request.max_wait_ms = min(request.max_wait_ms, max(until - now_ms, 0))
        return request

    def _due_ms(self, topic_partition: TopicPartition, now_ms: int) -> int:
        until = self.followed[topic_partition].rests_until_ms
        return until if until > now_ms else now_ms + self.limits.wait_ms_max

    def _rest_for_throttled(self, now_ms: int) -> None:
        if any(self.followed[name].rests_until_ms <= now_ms for name in self._news):
            self.rests_until_ms = now_ms + self.limits.wait_ms_max

    def _ask_where(self, lost: list[Followed]) -> ListOffsetsRequest:
        topics: dict[str, ListOffsetsTopic] = {}
        for followed in lost:
            name, index = followed.partition.topic_partition
            topic = topics.setdefault(name, ListOffsetsTopic(name=name))
            asked = ListOffsetsPartition(
                partition_index=index,
                current_leader_epoch=followed.partition.leader_epoch,
                timestamp=EARLIEST,
            )
            topic.partitions.append(asked)
            followed.is_lost = False  # whatever the answer says, the next fetch shows whether it helped
        return ListOffsetsRequest(replica_id=self.broker_id, topics=list(topics.values()))

    # -- answers ----------------------------------------------------------------------------------

    def on_answer(self, request: FetchRequest | ListOffsetsRequest, answer: object, now_ms: int) -> Progress:
        """The answer to the request that was under way, or None."""
        assert self.is_waiting, "there is an answer to nothing"
        self.is_waiting = False
        progress = Progress()
        if isinstance(answer, ListOffsetsResponse) and isinstance(request, ListOffsetsRequest):
            self._on_starts(request, answer, now_ms, progress)
        elif isinstance(answer, FetchResponse) and not answer.error_code:
            self.failures = 0
            self.requests.on_answered(answer.session_id)
            for key, part in _answers(answer):
                self._on_partition(key, part, now_ms, progress)
        else:
            code = answer.error_code if isinstance(answer, FetchResponse) else ErrorCode.NETWORK_EXCEPTION
            self.on_error(ErrorCode(code).name)
            self._on_failure(answer, now_ms)
        return progress

    def _on_failure(self, answer: object, now_ms: int) -> None:
        """No answer, or a word about the session: then begin a new one at once."""
        self.requests.reset()
        if not isinstance(answer, FetchResponse) or answer.error_code not in SESSION_ERRORS:
            self.rests_until_ms = now_ms + self._rest_ms(self.failures)
            self.failures += 1

    def _rest_ms(self, failures: int) -> int:
        return min(FIRST_REST_MS << min(failures, 20), self.limits.backoff_ms)

    def _on_partition(self, key: Key, answer: PartitionData, now_ms: int, progress: Progress) -> None:
        asked, followed = self.requests.asked.get(key), self.by_key.get(key)
        if asked is None or followed is None:
            return
        partition = followed.partition
        log_end = partition.log.log_end_offset
        if (asked.leader_epoch, asked.offset) != (partition.leader_epoch, log_end):
            return  # about a log that is no more
        self._news[partition.topic_partition] = None
        try:
            if answer.error_code:
                raise ApiError(ErrorCode(answer.error_code))
            self._apply(followed, answer, now_ms, progress)
        except ApiError as error:
            self._on_error(followed, error, now_ms)
        except LogDirectoryError as error:
            self._on_disk_failed(followed, error, progress)
        except OSError as error:
            if not is_shortage(error):
                raise
            # Nothing of this answer is known to have arrived: rest, and ask for all of it again.
            self._on_failure(None, now_ms)
        else:
            followed.failures = 0

    def _on_disk_failed(self, followed: Followed, error: LogDirectoryError, progress: Progress) -> None:
        self.drop(followed.partition.topic_partition)
        progress.failed[followed.partition.topic_partition] = error

    def _apply(self, followed: Followed, answer: PartitionData, now_ms: int, progress: Progress) -> None:
        partition = followed.partition
        if answer.diverging_epoch is not None:
            part = answer.diverging_epoch
            partition.on_diverged(part.epoch, part.end_offset, now_ms)
            return
        records = memoryview(answer.records) if answer.records else memoryview(b"")
        effects = partition.on_fetched(records, answer.high_watermark, answer.log_start_offset, now_ms)
        followed.lag = max(answer.high_watermark - partition.log.log_end_offset, 0)
        if effects:
            progress.effects.append((partition, effects))
        if records:
            progress.bytes[partition.topic_partition] = len(records)
        if not _is_safe(partition):
            self.unsafe[partition.topic_partition] = None

    def _on_error(self, followed: Followed, error: ApiError, now_ms: int) -> None:
        self.on_error(error.code.name)
        if error.code == ErrorCode.OFFSET_OUT_OF_RANGE and not followed.failures:
            followed.is_lost = True
            followed.failures = 1
            return
        followed.rests_until_ms = now_ms + self._rest_ms(followed.failures)
        followed.failures += 1
        followed.is_lost = error.code == ErrorCode.OFFSET_OUT_OF_RANGE
        level = logging.DEBUG if followed.failures < 4 else logging.WARNING
        log.log(
            level,
            "%s cannot be fetched from broker %d: %s",
            followed.partition.topic_partition,
            self.leader,
            error,
        )

    def _on_starts(
        self, request: ListOffsetsRequest, answer: ListOffsetsResponse, now_ms: int, progress: Progress
    ) -> None:
        epochs = {
            TopicPartition(topic.name, asked.partition_index): asked.current_leader_epoch
            for topic in request.topics
            for asked in topic.partitions
        }
        for topic in answer.topics:
            for start in topic.partitions:
                topic_partition = TopicPartition(topic.name, start.partition_index)
                followed = self.followed.get(topic_partition)
                if followed is None or followed.partition.leader_epoch != epochs.get(topic_partition):
                    continue
                self._news[topic_partition] = None
                if start.error_code or start.offset < 0:
                    self._on_error(followed, ApiError(ErrorCode(start.error_code or -1)), now_ms)
                    followed.is_lost = True
                    continue
                log.warning(
                    "%s ends at %d, where its leader has nothing: it starts over at %d",
                    topic_partition, followed.partition.log.log_end_offset, start.offset,
                )  # fmt: skip
                try:
                    followed.partition.restart_at(start.offset, now_ms)
                except LogDirectoryError as error:
                    self._on_disk_failed(followed, error, progress)


def _is_safe(partition: Partition) -> bool:
    return partition.log.safe_end >= partition.log.log_end_offset


def _answers(answer: FetchResponse) -> Iterator[tuple[Key, PartitionData]]:
    for topic in answer.responses:
        for part in topic.partitions:
            yield (topic.topic_id, part.partition_index), part
