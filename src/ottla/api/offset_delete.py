"""OffsetDelete (key 47): committed offsets of a group go, where no member subscribes to the topic
(KIP-496)."""

from ottla.api.call import Call
from ottla.api.coordinated import coordinated
from ottla.api.needs import DELETE, READ, TOPIC
from ottla.broker.parked import Parked
from ottla.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse


def offset_delete(call: Call, request: OffsetDeleteRequest) -> OffsetDeleteResponse | Parked:
    denied = {topic.name for topic in request.topics if not call.allows(READ, TOPIC, topic.name)}
    return coordinated(  # type: ignore[no-any-return]
        call,
        request.group_id,
        lambda shard, turn, answer: shard.delete_offsets(turn, answer, request, denied),
        lambda error: OffsetDeleteResponse(error_code=error.code),
        needs=DELETE,
        timeout_ms=call.broker.coordinators.groups.config.commit_timeout_ms,
    )
