"""Fetch (key 1): record batches from many partitions, as soon as there are enough bytes or the time is up.

Whole batches are returned as they are on disk, beginning with the one that holds the fetch offset. The
first partition that has anything gives at least one batch, however large (KIP-74), so that no limit can
starve a reader. A session (KIP-227) remembers what is wanted; its answers leave out partitions with
nothing new. A partition named twice in one request is read once, as named last.

A follower says who and which incarnation it is, on a connection that is proved to be its own (or it is told
TOPIC_AUTHORIZATION_FAILED, as in Kafka), and reads to the end of the log (`follower_fetch`). Consumers read
up to the high watermark, or to the last stable offset if they read what is committed only, and are then told
which transactions were aborted (`consumer_fetch`). Both read with `partition_reads`.

v4 isolation level · v5 log_start_offset · v6 KAFKA_STORAGE_ERROR · v7 sessions · v9 leader epochs · v11 rack
v12 flexible, diverging epoch · v13 topic ids · v15 replica state · v16 leader hints
v18 high watermark of the follower
"""

from collections.abc import Iterable
from functools import partial
from typing import Any

from ottla.api.call import Call
from ottla.api.consumer_fetch import ConsumerFetch
from ottla.api.follower_fetch import FollowerFetch
from ottla.api.needs import READ, TOPIC
from ottla.api.partition_reads import NO_REPLICA, Failure, PartitionReads, answer_bytes_max, is_long
from ottla.api.single_fetch import respond_single
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.offset_times import READ_COMMITTED
from ottla.broker.broker import Broker
from ottla.broker.config import RACK_AWARE_SELECTOR
from ottla.broker.long_work import Steps
from ottla.replication.leader import UNKNOWN
from ottla.replication.sessions import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, Session, Wanted
from ottla.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData

STORAGE_ERROR_SINCE = 6
FOLLOWERS_SINCE = 11
TOPIC_IDS_SINCE = 13


def fetch(call: Call, request: FetchRequest) -> Any:
    count = 0
    for topic in request.topics:
        count += len(topic.partitions)
    if request.session_id and not call.broker.identities.is_broker(call.connection):
        count += call.broker.sessions.partitions(request.session_id)
    if is_long(count):
        return _fetch_in_slices(call, request)
    asked = list(_named(call, request))
    return _fetch(
        call, request, asked if count == 1 else list({wanted.key: wanted for wanted in asked}.values())
    )


def _fetch_in_slices(call: Call, request: FetchRequest) -> Steps:
    named = {}
    for wanted in _named(call, request):
        named[wanted.key] = wanted
        yield
    return _fetch(call, request, list(named.values()))


def _fetch(call: Call, request: FetchRequest, asked: list[Wanted]) -> Any:
    """`asked`: what the request wants, of what is named twice the last."""
    broker = call.broker
    replica_id, replica_epoch = request.replica_id, NO_REPLICA
    if request.replica_state:
        replica_id, replica_epoch = request.replica_state.replica_id, request.replica_state.replica_epoch
    if replica_id >= 0 and not call.may_act_as(replica_id, "Fetch"):
        return _unauthorized(request)
    bytes_max = min(request.max_bytes, answer_bytes_max(broker))
    usage = call.usage if replica_id < 0 else None  # replication has a throttle of its own
    if usage is not None:
        bytes_max = min(bytes_max, usage.fetch_bytes_max)
    try:
        wanted, session, incremental = _resolve(
            call, request, asked, is_follower=replica_id in broker.image.brokers
        )
    except ApiError as error:
        return FetchResponse(error_code=error.code, session_id=NO_SESSION)
    rack, failure = _rack_to_serve(broker, request.rack_id), None
    if len(wanted) == 1 and replica_id < 0 and usage is None and not rack:
        answer = _fetch_single(call, request, wanted[0], session, bytes_max)
        if isinstance(answer, FetchResponse):
            return answer
        failure = answer
    reads = PartitionReads(
        broker=broker,
        connection=call.connection,
        wanted=wanted,
        session=session,
        incremental=incremental,
        by_id=call.version >= TOPIC_IDS_SINCE,
        bytes_min=min(request.min_bytes, bytes_max),
        bytes_max=bytes_max,
        knows_storage_error=call.version >= STORAGE_ERROR_SINCE,
        usage=usage,
        failure=failure,
    )
    if replica_id >= 0:
        vouched_ms = session.answered_ms if session is not None and incremental else UNKNOWN
        return FollowerFetch(
            reads=reads,
            replica_id=replica_id,
            replica_epoch=replica_epoch,
            now_ms=call.now_ms,
            vouched_ms=vouched_ms,
        ).answer(request.max_wait_ms)
    if broker.access.authorizer is not None:
        reads.find_denied = partial(_denied, call, wanted)
        reads.denied = reads.find_denied()
    return ConsumerFetch(
        reads=reads,
        leader_only=call.version < FOLLOWERS_SINCE,
        rack=rack,
        read_committed=request.isolation_level == READ_COMMITTED,
        asked_ms=call.now_ms,
    ).answer(request.max_wait_ms)


def _fetch_single(
    call: Call, request: FetchRequest, wanted: Wanted, session: Session | None, room: int
) -> FetchResponse | Failure | None:
    """`respond_single`, if a first record is enough, and whoever asks needs no leave."""
    is_enough = request.max_wait_ms <= 0 or (request.min_bytes <= 1 and wanted.max_bytes > 0)
    if not is_enough or call.broker.access.authorizer is not None:
        return None
    read_committed = request.isolation_level == READ_COMMITTED
    return respond_single(call.broker, wanted, session, room, call.now_ms, read_committed=read_committed)


def _denied(call: Call, wanted: list[Wanted]) -> frozenset[str]:
    """The topics that whoever fetches may not read."""
    topics = dict.fromkeys(asked.topic for asked in wanted)
    return frozenset(topic for topic in topics if topic and not call.allows(READ, TOPIC, topic))


def _rack_to_serve(broker: Broker, rack: str) -> str:
    """The consumer's rack, if there is a reason to look for a replica in it."""
    wanted = broker.config.replica_selector_class == RACK_AWARE_SELECTOR and rack != broker.config.rack
    return rack if wanted else ""


def _resolve(
    call: Call, request: FetchRequest, asked: list[Wanted], *, is_follower: bool
) -> tuple[list[Wanted], Session | None, bool]:
    """What to read, under which session (KIP-227), and whether the answer may leave out what has not
    changed."""
    sessions = call.broker.sessions
    by_id = call.version >= TOPIC_IDS_SINCE
    if request.session_epoch in {INITIAL_EPOCH, FINAL_EPOCH}:
        sessions.close(request.session_id)
        if request.session_epoch == FINAL_EPOCH or not asked:
            return asked, None, False
        session = sessions.open(asked, by_topic_id=by_id, now_ms=call.now_ms, is_follower=is_follower)
        return asked, session, False
    session = sessions.resume(
        request.session_id, request.session_epoch, by_topic_id=by_id, now_ms=call.now_ms
    )
    forgotten = [
        (topic.topic_id if by_id else topic.topic, partition)
        for topic in request.forgotten_topics_data
        for partition in topic.partitions
    ]
    sessions.update(session, asked, forgotten)
    remembered = list(session.wanted.values())
    if not remembered:
        sessions.close(session.id)
        return remembered, None, False
    for wanted in remembered:
        if by_id and not wanted.topic:
            wanted.topic = call.broker.image.topic_names.get(wanted.topic_id, "")
    return remembered, session, True


def _named(call: Call, request: FetchRequest) -> Iterable[Wanted]:
    by_id, names = call.version >= TOPIC_IDS_SINCE, call.broker.image.topic_names
    for topic in request.topics:
        name = names.get(topic.topic_id, "") if by_id else topic.topic
        for part in topic.partitions:
            yield Wanted(
                name, topic.topic_id, part.partition, part.fetch_offset, part.partition_max_bytes,
                part.current_leader_epoch, part.last_fetched_epoch, part.log_start_offset,
            )  # fmt: skip


def _unauthorized(request: FetchRequest) -> FetchResponse:
    """What Kafka says to whoever fetches as a replica and may not."""
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return FetchResponse(
        session_id=NO_SESSION,
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    PartitionData(
                        partition_index=part.partition, error_code=refused, high_watermark=-1, records=b""
                    )
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )
