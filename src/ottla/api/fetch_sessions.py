"""What a fetch wants to read: what it names, and what its session (KIP-227) remembers; or that it may not."""

from collections.abc import Generator, Iterable

from ottla.api.call import Call
from ottla.base.errors import ErrorCode
from ottla.replication.sessions import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, Session, Wanted
from ottla.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData

TOPIC_IDS_SINCE = 13


def resolve(
    call: Call, request: FetchRequest, *, is_follower: bool
) -> Generator[None, None, tuple[list[Wanted], Session | None, bool]]:
    """What to read, under which session, and whether the answer may leave out what has not changed."""
    sessions = call.broker.sessions
    by_id = call.version >= TOPIC_IDS_SINCE
    named = {}
    for one in _asked(call, request, by_id):
        named[one.key] = one  # the last one counts
        yield
    asked = list(named.values())
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
    wanted = list(session.wanted.values())
    if not wanted:
        sessions.close(session.id)
        return wanted, None, False
    for one in wanted:
        if by_id and not one.topic:
            one.topic = call.broker.image.topic_names.get(one.topic_id, "")
    return wanted, session, True


def unauthorized(request: FetchRequest) -> FetchResponse:
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
                        partition_index=one.partition, error_code=refused, high_watermark=-1, records=b""
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _asked(call: Call, request: FetchRequest, by_id: bool) -> Iterable[Wanted]:
    names = call.broker.image.topic_names
    for topic in request.topics:
        name = names.get(topic.topic_id, "") if by_id else topic.topic
        for one in topic.partitions:
            yield Wanted(
                name, topic.topic_id, one.partition, one.fetch_offset, one.partition_max_bytes,
                one.current_leader_epoch, one.last_fetched_epoch, one.log_start_offset,
            )  # fmt: skip
