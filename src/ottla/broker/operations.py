"""Operations on the shards of coordinators: run at once, answered when what they rest on is committed, and
when it is certain that this broker was the coordinator (`leadership_proofs`)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition
from ottla.broker.leadership_proofs import Proof, Proofs
from ottla.broker.parked import Key
from ottla.coordinator.runtime import Runtime, Shard
from ottla.coordinator.turn import Answer, Turn
from ottla.replication.partition import Partition

S = TypeVar("S", bound=Shard)


class Coordinator(Protocol[S]):
    """What stores its state in an internal topic, and finds the partition of a key."""

    runtime: Runtime[S]

    @property
    def commit_timeout_ms(self) -> int: ...
    def partition_of(self, key: str, /) -> TopicPartition: ...
    def check_key(self, key: str, /) -> None: ...


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


@dataclass(slots=True)
class Tried:
    """An operation that was run already: what it answers is given, or why it cannot be."""

    answer: Answer
    error: Exception | None = None

    def check(self) -> None:
        """Raise the error, once: whoever kept it would keep its frames, and the bytes that were received."""
        error, self.error = self.error, None
        try:
            if error is not None:
                raise error
        finally:
            del error  # or its traceback would lead back to it


class Operation(Generic[S]):
    """One operation, which is run at once unless it was tried, and what is answered: the reply as soon as
    that may be sent. Most refusals rest on what the coordinator knows as much as any answer does, and wait
    alike."""

    def __init__(
        self,
        partitions: Mapping[TopicPartition, Partition],
        proofs: Proofs,
        coordinator: Coordinator[S],
        key: str,
        operation: Callable[[S, Turn, Answer], None],
        refuse: Callable[[ApiError], Any],
        now_ms: int,
        tried: Tried | None = None,
    ) -> None:
        self._partitions, self._proofs, self._refuse = partitions, proofs, refuse
        self._answer = answer = Answer() if tried is None else tried.answer
        self.topic_partition = coordinator.partition_of(key)
        self._shards = coordinator.runtime.shards
        self.is_refused = False
        self.reply: Any = None
        if self.topic_partition in proofs.in_doubt:
            self.reply = refuse(ApiError(ErrorCode.NOT_COORDINATOR))
            return
        try:
            if tried is None:
                coordinator.check_key(key)
                coordinator.runtime.execute(
                    self.topic_partition.partition, now_ms, lambda shard, turn: operation(shard, turn, answer)
                )
            else:
                tried.check()
        except ApiError as error:
            self.is_refused = True
            code = _STORAGE.get(error.code, error.code)
            refusal = refuse(ApiError(code, error.message))
            if code in _AT_ONCE or error.code in _STORAGE:
                self.reply = refusal
                return
            end_offset = partitions[self.topic_partition].log.log_end_offset
            answer.reply, answer.after_offset, answer.given_ms = refusal, end_offset, now_ms
        self._loaded = self._shards.get(self.topic_partition.partition)
        if self._loaded is None:
            self._give_up(ErrorCode.NOT_COORDINATOR)  # its disk failed with what came of the operation
        else:
            self.reply = self._sendable(now_ms)

    @property
    def keys(self) -> tuple[Key, ...]:
        return self._answer, self.topic_partition, Proof(self.topic_partition)

    def ready(self, now_ms: int) -> Any | None:
        if self.reply is None:
            if self._shards.get(self.topic_partition.partition) is not self._loaded:
                self._give_up(ErrorCode.NOT_COORDINATOR)  # the shard that would answer is gone
            else:
                self.reply = self._sendable(now_ms)
                if self.reply is None and self.topic_partition in self._proofs.in_doubt:
                    self._give_up(ErrorCode.NOT_COORDINATOR)
        return self.reply

    def expire(self) -> Any:
        if self.reply is None:
            self._give_up(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return self.reply

    def _give_up(self, code: ErrorCode) -> None:
        self.reply = self._refuse(ApiError(code))

    def _sendable(self, now_ms: int) -> Any | None:
        answer, partition = self._answer, self._partitions[self.topic_partition]
        if answer.reply is None or partition.high_watermark < answer.after_offset:
            return None
        if partition.replication is not None and partition.replication.is_held:
            # The coordinator before may still answer, and knows nothing of what we have in memory.
            return None
        if not self._proofs.led_at(partition, answer.given_ms, now_ms):
            self._proofs.ask_for(partition, answer.given_ms, now_ms)
            return None
        return answer.reply
