"""OffsetFetch (key 9): how far groups have read; only what is committed itself.

A partition without a committed offset is answered with -1 and no error, and so is a group nobody knows. A
null list of topics asks for everything the group has committed, but for topics that whoever asks may not
describe. A new coordinator may not know yet how much
of what it loaded is committed, and one that was replaced may not know of later commits: neither says -1, nor
an older offset; both say COORDINATOR_LOAD_IN_PROGRESS, after which every client asks again. So does one that
cannot read what is stored: the Java client takes COORDINATOR_NOT_AVAILABLE for the end of its consumer here.
A group, or a partition in a topic, that is named twice is answered once.

Who asks for stable offsets is not told what a transaction may be about to change: such a partition is
answered with UNSTABLE_OFFSET_COMMIT, after which every client asks again. If all topics are asked for, so is
one that has nothing but what is pending, which Kafka leaves out: to a client that would mean that nothing was
ever committed. Others are told what was committed last.

v2 all topics, top-level error · v5 leader epochs · v6 flexible · v7 require_stable (KIP-447) · v8 several
groups
v9 member epochs of the new protocol · v10 topic ids
"""

from dataclasses import dataclass
from functools import partial

from ottla.api.call import Call
from ottla.api.coordinated import answer_about_groups, check_coordinator, check_described
from ottla.api.needs import DESCRIBE, TOPIC
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import ZERO_UUID
from ottla.broker.long_work import LARGE, Steps
from ottla.group.committed_offset import CommittedOffset
from ottla.group.offsets import Offsets
from ottla.wire.lazy import lazily
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

BATCHED_SINCE, TOPIC_IDS_SINCE, TOP_LEVEL_ERROR_SINCE = 8, 10, 2
MANY = 1_000  # offsets: all of a topic are copied at a time


def offset_fetch(call: Call, request: OffsetFetchRequest) -> Steps:
    is_batched = call.version >= BATCHED_SINCE
    group_ids = [group.group_id for group in request.groups] if is_batched else [request.group_id]
    return answer_about_groups(call, group_ids, lambda now_ms: _respond(call, request, now_ms))


def _respond(call: Call, request: OffsetFetchRequest, now_ms: int) -> Steps:
    if call.version >= BATCHED_SINCE:
        groups = {group.group_id: group for group in request.groups}
        for group in groups.values():
            if _is_long(call, group):
                yield LARGE
                break
            yield
        answer = partial(_fetch, call, now_ms, request.require_stable)
        return OffsetFetchResponse(groups=lazily(answer, groups.values()))
    topics = request.topics
    asked = OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if topics is None
        else [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in topics
        ],
    )
    yield LARGE if _is_long(call, asked) else None
    fetched = _fetch(call, now_ms, request.require_stable, asked)
    if fetched.error_code and call.version < TOP_LEVEL_ERROR_SINCE:
        fetched.topics = lazily(partial(_refused, fetched.error_code), asked.topics or [])
    return OffsetFetchResponse(
        error_code=fetched.error_code,
        topics=lazily(
            lambda topic: OffsetFetchResponseTopic(
                name=topic.name, partitions=lazily(_single, topic.partitions)
            ),
            fetched.topics,
        ),
    )


def _is_long(call: Call, asked: OffsetFetchRequestGroup) -> bool:
    """Is everything asked for of a group that has much?"""
    if asked.topics is not None:
        return False
    try:
        offsets = call.broker.coordinators.groups.shard_of(asked.group_id).offsets
    except ApiError:
        return False
    return sum(map(len, offsets.newest(asked.group_id).values())) > MANY


def _single(partition: OffsetFetchResponsePartitions) -> OffsetFetchResponsePartition:
    """A partition as in an answer about one group."""
    return OffsetFetchResponsePartition(
        partition_index=partition.partition_index,
        committed_offset=partition.committed_offset,
        committed_leader_epoch=partition.committed_leader_epoch,
        metadata=partition.metadata,
        error_code=partition.error_code,
    )


def _fetch(
    call: Call, now_ms: int, require_stable: bool, asked: OffsetFetchRequestGroup
) -> OffsetFetchResponseGroup:
    response = OffsetFetchResponseGroup(group_id=asked.group_id)
    broker, group_id = call.broker, asked.group_id
    try:
        check_described(call, group_id)
        if not group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        shard = broker.coordinators.groups.shard_of(group_id)
        check_coordinator(call, group_id, now_ms)
        shard.check_fetch(group_id, asked.member_id, asked.member_epoch)
        high_watermark = broker.partitions[broker.coordinators.groups.partition_of(group_id)].high_watermark
        reading = _Reading(call, group_id, shard.offsets, high_watermark, require_stable)
        if asked.topics is None:
            response.topics = reading.everything()
        else:
            response.topics = lazily(reading.topic, asked.topics)
    except ApiError as error:
        is_failed = error.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        response.error_code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if is_failed else error.code
    return response


@dataclass(frozen=True, slots=True)
class _Reading:
    """What is told of a group, as of a watermark."""

    call: Call
    group_id: str
    offsets: Offsets
    high_watermark: int
    require_stable: bool

    def topic(self, asked: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
        name = asked.name
        if self.call.version >= TOPIC_IDS_SINCE:
            name = self.call.broker.image.topic_names.get(asked.topic_id, "")
            if not name:
                return _refused(ErrorCode.UNKNOWN_TOPIC_ID, asked)
        if not self.call.allows(DESCRIBE, TOPIC, name):
            return _refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, asked)

        def answer(index: int) -> OffsetFetchResponsePartitions:
            where = (self.group_id, name, index, self.high_watermark)
            if self.require_stable and self.offsets.is_unstable(*where):
                return _without_offset(ErrorCode.UNSTABLE_OFFSET_COMMIT, index)
            return _partition(index, self.offsets.get(*where))

        return OffsetFetchResponseTopics(
            name=name,
            topic_id=asked.topic_id,
            partitions=lazily(answer, dict.fromkeys(asked.partition_indexes)),
        )

    def everything(self) -> list[OffsetFetchResponseTopics]:
        topics = self.call.broker.image.topics
        names = self.offsets.topics(self.group_id, self.high_watermark)
        if self.require_stable:
            names = sorted({*names, *self.offsets.unstable_topics(self.group_id, self.high_watermark)})
        listed = [
            name
            for name in names
            if (name in topics or self.call.version < TOPIC_IDS_SINCE)
            and self.call.allows(DESCRIBE, TOPIC, name, is_asked=False)
        ]

        def answer(name: str) -> OffsetFetchResponseTopics:
            topic_id = topics[name].id if name in topics else ZERO_UUID
            return OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=self._all_of(name))

        return lazily(answer, listed)

    def _all_of(self, topic: str) -> list[OffsetFetchResponsePartitions]:
        committed = self.offsets.of_topic(self.group_id, topic, self.high_watermark)
        if self.require_stable:
            unstable = self.offsets.unstable_of_topic(self.group_id, topic, self.high_watermark)
            if unstable:
                code = ErrorCode.UNSTABLE_OFFSET_COMMIT
                indexes = sorted({*committed, *unstable})
                return lazily(
                    lambda index: (
                        _without_offset(code, index)
                        if index in unstable
                        else _partition(index, committed[index])
                    ),
                    indexes,
                )
        return lazily(lambda entry: _partition(*entry), committed.items())


def _partition(index: int, committed: CommittedOffset | None) -> OffsetFetchResponsePartitions:
    if committed is None:
        return _without_offset(ErrorCode.NONE, index)
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
    )


def _refused(code: int, topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=lazily(partial(_without_offset, code), dict.fromkeys(topic.partition_indexes)),
    )


def _without_offset(code: int, index: int) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=index, committed_offset=-1, metadata="", error_code=code
    )
