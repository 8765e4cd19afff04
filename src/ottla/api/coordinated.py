"""Requests to a coordinator, of groups or of transactions: run on a shard, answered when what they rest on
is committed, and when it is certain that this broker was the coordinator (`broker/leadership_proofs`)."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from ottla.api.authorized_operations import ON_GROUP
from ottla.api.call import Call
from ottla.api.leadership_proof import proven
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition, uuid_text
from ottla.broker.broker import Broker
from ottla.broker.leadership_proofs import Proof
from ottla.broker.long_work import Steps
from ottla.broker.parked import Key, Parked
from ottla.coordinator.runtime import Runtime, Shard
from ottla.coordinator.turn import Answer, Turn
from ottla.group.group import Caller
from ottla.group.shard import GroupShard
from ottla.wire.lazy import lazily

S = TypeVar("S", bound=Shard)


class Coordinator(Protocol[S]):
    """What stores its state in an internal topic, and finds the partition of a key."""

    runtime: Runtime[S]

    @property
    def commit_timeout_ms(self) -> int: ...
    def partition_of(self, key: str, /) -> TopicPartition: ...
    def execute(self, key: str, now_ms: int, operation: Callable[[S, Turn], None], /) -> None: ...


class Described(Protocol):
    """A group, in the answer of either API that describes groups."""

    error_code: int
    authorized_operations: int


D = TypeVar("D", bound=Described)

PATIENCE_MS = 7 * 24 * 3600 * 1000

# What went wrong with the partition that stores it, as a client of the coordinator should hear it.
_STORAGE = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}

# What rests on nothing that this coordinator knows: there is none here, or the request itself is wrong.
_AT_ONCE = {
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.INVALID_SESSION_TIMEOUT,
    ErrorCode.INVALID_REGULAR_EXPRESSION,
    ErrorCode.INVALID_TRANSACTION_TIMEOUT,
    ErrorCode.MEMBER_ID_REQUIRED,
    ErrorCode.UNSUPPORTED_ASSIGNOR,
    ErrorCode.UNSUPPORTED_VERSION,
}


def caller_of(call: Call, name: str | None) -> Caller:
    """Who asks. If it has no member id yet, it gets one made of `name` and something random."""
    member_id = f"{name}-{call.random_uuid()}" if name else uuid_text(call.broker.random.randbytes(16))
    return Caller(call.client_id, call.client_host, call.version, member_id)


class Operation(Generic[S]):
    """One operation, which is run at once, and what is answered: the reply as soon as that may be sent. Most
    refusals rest on what the coordinator knows as much as any answer does, and wait alike."""

    def __init__(
        self,
        call: Call,
        coordinator: Coordinator[S],
        key: str,
        operation: Callable[[S, Turn, Answer], None],
        refuse: Callable[[ApiError], Any],
    ) -> None:
        self._broker, self._refuse = call.broker, refuse
        self._answer = answer = Answer()
        self.topic_partition = coordinator.partition_of(key)
        self._shards = coordinator.runtime.shards
        self.is_refused = False
        self.reply: Any = None
        if self.topic_partition in call.broker.proofs.in_doubt:
            self.reply = refuse(ApiError(ErrorCode.NOT_COORDINATOR))
            return
        try:
            coordinator.execute(key, call.now_ms, lambda shard, turn: operation(shard, turn, answer))
        except ApiError as error:
            self.is_refused = True
            code = _STORAGE.get(error.code, error.code)
            refusal = refuse(ApiError(code, error.message))
            if code in _AT_ONCE or error.code in _STORAGE:
                self.reply = refusal
                return
            end_offset = self._broker.partitions[self.topic_partition].log.log_end_offset
            answer.reply, answer.after_offset, answer.given_ms = refusal, end_offset, call.now_ms
        self._loaded = self._shards[self.topic_partition.partition]
        self.reply = _sendable(self._broker, self.topic_partition, answer, call.now_ms)

    @property
    def keys(self) -> tuple[Key, ...]:
        return self._answer, self.topic_partition, Proof(self.topic_partition)

    def ready(self, now_ms: int) -> Any | None:
        if self.reply is None:
            if self._shards.get(self.topic_partition.partition) is not self._loaded:
                self._give_up(ErrorCode.NOT_COORDINATOR)  # the shard that would answer is gone
            else:
                self.reply = _sendable(self._broker, self.topic_partition, self._answer, now_ms)
                if self.reply is None and self.topic_partition in self._broker.proofs.in_doubt:
                    self._give_up(ErrorCode.NOT_COORDINATOR)
        return self.reply

    def expire(self) -> Any:
        if self.reply is None:
            self._give_up(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return self.reply

    def _give_up(self, code: ErrorCode) -> None:
        self.reply = self._refuse(ApiError(code))


def coordinated(
    call: Call,
    group_id: str,
    operation: Callable[[GroupShard, Turn, Answer], None],
    refuse: Callable[[ApiError], Any],
    *,
    timeout_ms: int = PATIENCE_MS,
) -> Any:
    """The answer of an operation on a group, or Parked until it has one that may be sent."""
    groups = call.broker.coordinators.groups
    running = Operation(call, groups, group_id, operation, refuse)
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
    """What `respond` makes of the replies of operations, or Parked until all of them may be sent."""
    still = [operation for operation in operations if operation.reply is None]
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


def _sendable(broker: Broker, topic_partition: TopicPartition, answer: Answer, now_ms: int) -> Any | None:
    partition = broker.partitions[topic_partition]
    if answer.reply is None or partition.high_watermark < answer.after_offset:
        return None
    if partition.replication is not None and partition.replication.is_held:
        return None  # the coordinator before may still answer, and knows nothing of what is in memory here
    if not broker.proofs.led_at(partition, answer.given_ms, now_ms):
        broker.proofs.ask_for(partition, answer.given_ms, now_ms)
        return None
    return answer.reply


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
                group.authorized_operations = ON_GROUP
            return group

        return respond(lazily(description, unique))

    return answer_about_groups(call, unique, answer)
