"""Requests to a coordinator, of groups or of transactions: run on a shard, answered when what they rest on
is committed, and when it is certain that this broker was the coordinator (`broker/leadership_proofs`)."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from ottla.api.authorized_operations import authorized_operations
from ottla.api.call import Call
from ottla.api.leadership_proof import proven
from ottla.api.needs import DESCRIBE, GROUP, READ
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition, uuid_text
from ottla.broker.long_work import Steps
from ottla.broker.operations import Operation, Tried
from ottla.broker.parked import Key, Parked
from ottla.coordinator.turn import Answer, Turn
from ottla.group.group import Caller
from ottla.group.shard import GroupShard
from ottla.security.resources import Operation as Right
from ottla.wire.lazy import lazily


class Described(Protocol):
    """A group, in the answer of either API that describes groups."""

    error_code: int
    authorized_operations: int


D = TypeVar("D", bound=Described)

PATIENCE_MS = 7 * 24 * 3600 * 1000


def caller_of(call: Call, name: str | None) -> Caller:
    """Who asks. If it has no member id yet, it gets one made of `name` and something random."""
    member_id = f"{name}-{call.random_uuid()}" if name else uuid_text(call.broker.random.randbytes(16))
    return Caller(call.client_id, call.client_host, call.version, member_id)


def coordinated(
    call: Call,
    group_id: str,
    operation: Callable[[GroupShard, Turn, Answer], None],
    refuse: Callable[[ApiError], Any],
    *,
    needs: Right = READ,
    timeout_ms: int = PATIENCE_MS,
    tried: Tried | None = None,
) -> Any:
    """The answer of an operation on a group, or Parked until it has one that may be sent. Whoever asks is
    allowed what it `needs` on the group, or refused. One that was `tried` already is not run again."""
    if not call.allows(needs, GROUP, group_id):
        return refuse(ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    groups = call.broker.coordinators.groups
    running = Operation(
        call.broker.partitions, call.broker.proofs, groups, group_id, operation, refuse, call.now_ms, tried
    )
    if running.reply is not None:
        return running.reply
    if running.is_refused:
        timeout_ms = min(timeout_ms, groups.commit_timeout_ms)
    return Parked(
        keys=running.keys,
        deadline_ms=call.now_ms + timeout_ms,
        ready=lambda _key, now_ms: running.ready(now_ms),
        expire=lambda _now_ms: running.expire(),
    )


def answer_together(
    call: Call,
    operations: Sequence[Operation[Any]],
    respond: Callable[[list[Any]], Any],
    timeout_ms: int,
) -> Any:
    """What `respond` makes of the replies of operations, or Parked until all of them may be sent. They may
    have been run some slices ago: nobody has woken what was not parked."""
    still = [operation for operation in operations if operation.ready(call.now_ms) is None]
    if not still:
        return respond([operation.reply for operation in operations])

    def ready(_key: Key, now_ms: int) -> Any | None:
        still[:] = [operation for operation in still if operation.ready(now_ms) is None]
        return None if still else respond([operation.reply for operation in operations])

    return Parked(
        keys=tuple(dict.fromkeys(key for operation in still for key in operation.keys)),
        deadline_ms=call.now_ms + timeout_ms,
        ready=ready,
        expire=lambda _now_ms: respond([operation.expire() for operation in operations]),
    )


def check_described(call: Call, group_id: str) -> None:
    """Refuse to speak of a group to whoever may not describe it."""
    call.require(DESCRIBE, GROUP, group_id)


def check_coordinator(call: Call, group_id: str, now_ms: int) -> None:
    """Refuse to speak of a group while this broker may not know all that was committed, or may have been
    replaced: with the one error after which every client asks again (librdkafka, told NOT_COORDINATOR, would
    look for another and leave the partitions it asked about unread)."""
    check_partition(call, call.broker.coordinators.groups.partition_of(group_id), now_ms)


def check_partition(call: Call, topic_partition: TopicPartition, now_ms: int) -> None:
    """The same for any partition of an internal topic."""
    broker = call.broker
    partition = broker.partitions.get(topic_partition)
    if partition is None or not partition.is_leader:
        raise ApiError(ErrorCode.NOT_COORDINATOR)
    if not partition.is_settled or not broker.proofs.led_at(partition, call.now_ms, now_ms):
        raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def answer_about_groups(call: Call, group_ids: Iterable[str], respond: Callable[[int], Any]) -> Steps:
    """What `respond` says of groups, once this broker can be certain of it. It calls `check_coordinator`."""
    return answer_about(call, call.broker.coordinators.groups.partition_of, group_ids, respond)


def answer_about(
    call: Call,
    partition_of: Callable[[str], TopicPartition],
    keys: Iterable[str],
    respond: Callable[[int], Any],
) -> Steps:
    """What `respond` says of keys, once this broker can be certain of it. It calls `check_partition`."""
    topic_partitions: dict[TopicPartition, None] = {}
    for key in keys:
        topic_partitions[partition_of(key)] = None
        yield
    partitions = call.broker.partitions
    held = [
        partitions[topic_partition] for topic_partition in topic_partitions if topic_partition in partitions
    ]
    return proven(call, held, respond, settled=True)


def answer_with_descriptions(
    call: Call,
    group_ids: Iterable[str],
    describe: Callable[[Call, str, int], D],
    respond: Callable[[list[D]], Any],
    *,
    with_operations: bool,
) -> Steps:
    """A response with the description of every group, each of them once."""
    unique = dict.fromkeys(group_ids)

    def answer(now_ms: int) -> Any:
        def description(group_id: str) -> D:
            group = describe(call, group_id, now_ms)
            if with_operations and not group.error_code:
                group.authorized_operations = authorized_operations(call, GROUP, group_id)
            return group

        return respond(lazily(description, unique))

    return answer_about_groups(call, unique, answer)
