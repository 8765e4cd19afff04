"""Transactions in tests: a coordinator on a clock moved by hand, with its journal in memory.

Requests answer with the reply, or with the code they were refused with. Markers are written when a test says
so (`write_markers`), to the partitions that it says.
"""

from dataclasses import dataclass, field
from typing import Any

from tests.support.journal import Journal

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition
from ottla.coordinator.runtime import Runtime
from ottla.coordinator.turn import Answer
from ottla.txn.config import TransactionConfig
from ottla.txn.markers import EndedTransaction
from ottla.txn.memory import room_bytes
from ottla.txn.shard import Producer, TransactionShard
from ottla.txn.states import TransactionState
from ottla.txn.transaction import Transaction
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest

ID = "payments"
TIMEOUT_MS = 60_000
P0, P1, Q0 = TopicPartition("p", 0), TopicPartition("p", 1), TopicPartition("q", 0)
V1_END, V2_END = 4, 5
BUSY = ErrorCode.CONCURRENT_TRANSACTIONS


@dataclass
class Coordinator:
    config: TransactionConfig = field(default_factory=TransactionConfig)
    level: int = 2
    now_ms: int = 1_000_000
    memory_bytes: int | None = None
    epoch: int = 0
    next_id: int = 1000
    ids_left: int = 1 << 30
    journal: Journal = field(default_factory=Journal)
    sent: list[EndedTransaction] = field(default_factory=list)
    waiting: dict[int, Answer] = field(default_factory=dict)
    last_answer: Answer = field(default_factory=Answer)

    def __post_init__(self) -> None:
        self.runtime: Runtime[TransactionShard] = Runtime(
            lambda _index: self.new_shard(), lambda answer, _now_ms: self._on_answered(answer)
        )
        self.restart()

    def new_shard(self) -> TransactionShard:
        return TransactionShard(
            self.config,
            level=lambda: self.level,
            take_producer_id=self.take_producer_id,
            send_markers=self.sent.append,
            coordinator_epoch=lambda: self.runtime.shards[0].leader_epoch,
            **({} if self.memory_bytes is None else {"room_bytes": self.room_bytes}),  # type: ignore[arg-type]
        )

    def room_bytes(self, is_new: bool) -> int:
        assert self.memory_bytes is not None
        return room_bytes(self.memory_bytes, self.shard.held_bytes, is_new=is_new)

    def take_producer_id(self) -> int:
        if not self.ids_left:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        self.ids_left -= 1
        self.next_id += 1
        return self.next_id

    @property
    def shard(self) -> TransactionShard:
        return self.runtime.shard(0)

    def transaction(self, transactional_id: str = ID) -> Transaction:
        return self.shard.transactions[transactional_id]

    def state(self, transactional_id: str = ID) -> TransactionState:
        return self.transaction(transactional_id).state

    def restart(self) -> None:
        """Another coordinator takes over from what is stored; markers on their way are lost."""
        self.epoch += 1
        self.sent.clear()
        self.waiting.clear()
        self.runtime.load(0, self.journal, self.epoch, self.now_ms)
        while self.runtime.loading:
            self.runtime.on_tick(self.now_ms)
        self.runtime.on_committed(0, self.journal.committed_offset, self.now_ms)

    def advance(self, ms: int) -> None:
        """Time goes by, from one timer to the next."""
        until_ms = self.now_ms + ms
        while (due_ms := self.runtime.next_ms) is not None and due_ms <= until_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.runtime.on_tick(self.now_ms)
            self._on_written()
        self.now_ms = until_ms

    def commit_journal(self) -> None:
        """The high watermark reaches the end."""
        self.journal.committed = self.journal.end_offset
        self.runtime.on_committed(0, self.journal.committed, self.now_ms)

    def run(self, operation: Any) -> Any:
        answer = Answer()
        self.waiting[id(answer)] = answer
        try:
            self.runtime.execute(0, self.now_ms, lambda shard, turn: operation(shard, turn, answer))
        except ApiError as error:
            del self.waiting[id(answer)]
            return error.code
        self.last_answer = answer
        self._on_written()
        assert answer.reply is not None, "a transaction's requests are answered at once"
        return answer.reply

    def _on_written(self) -> None:
        if not self.journal.waits:
            self.commit_journal()

    def _on_answered(self, answer: Answer) -> None:
        assert self.waiting.pop(id(answer), None) is answer, "somebody has been answered twice"

    # Requests

    def init(
        self,
        transactional_id: str = ID,
        *,
        timeout_ms: int = TIMEOUT_MS,
        had: tuple[int, int] | None = None,
    ) -> Any:
        """The producer's id and epoch, or the code of the refusal."""
        producer_id, epoch = had or (-1, -1)
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        reply = self.run(lambda shard, turn, answer: shard.init_producer_id(turn, answer, request))
        if isinstance(reply, ErrorCode):
            return reply
        return ErrorCode(reply.error_code) if reply.error_code else (reply.producer_id, reply.producer_epoch)

    def add(
        self,
        producer: tuple[int, int],
        *partitions: TopicPartition,
        transactional_id: str = ID,
        client_version: int = 2,
    ) -> ErrorCode:
        who = Producer(transactional_id, *producer)
        reply: ErrorCode = self.run(
            lambda shard, turn, answer: shard.add_partitions(
                turn, answer, who, partitions or (P0,), client_version, ErrorCode.NONE
            )
        )
        return reply

    def verify(
        self, producer: tuple[int, int], *partitions: TopicPartition, transactional_id: str = ID
    ) -> Any:
        who = Producer(transactional_id, *producer)
        return self.run(
            lambda shard, turn, answer: shard.verify(
                turn, answer, who, partitions or (P0,), lambda told: told
            )
        )

    def end(
        self,
        producer: tuple[int, int],
        *,
        committed: bool = True,
        version: int = V2_END,
        transactional_id: str = ID,
    ) -> Any:
        """The id and epoch to go on with, (-1, -1) for old versions, or the code of the refusal."""
        request = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            committed=committed,
        )
        reply = self.run(lambda shard, turn, answer: shard.end(turn, answer, request, version))
        return reply if isinstance(reply, ErrorCode) else (reply.producer_id, reply.producer_epoch)

    def commit(self, producer: tuple[int, int], **options: Any) -> Any:
        return self.end(producer, committed=True, **options)

    def abort(self, producer: tuple[int, int], **options: Any) -> Any:
        return self.end(producer, committed=False, **options)

    # Markers

    def written(self, ended: EndedTransaction, *partitions: TopicPartition) -> None:
        """Some partitions, or all, have their marker."""
        having = frozenset(partitions) or ended.partitions
        try:
            self.runtime.execute(
                0, self.now_ms, lambda shard, turn: shard.on_markers_written(turn, ended, having)
            )
        except ApiError:
            self.runtime.execute(
                0, self.now_ms, lambda shard, turn: shard.complete_later(turn, ended.transactional_id)
            )
        self._on_written()

    def write_markers(self) -> list[EndedTransaction]:
        """All that is to be written is; what that was."""
        ended, self.sent[:] = list(self.sent), []
        for transaction in ended:
            self.written(transaction)
        return ended

    # What must always be true

    def fresh(self) -> TransactionShard:
        """A shard that knows only the journal."""
        shard = self.new_shard()
        for record, offset, timestamp_ms in self.journal.records:
            shard.replay(record, offset, timestamp_ms)
        return shard

    def check(self) -> None:
        fresh, live = self.fresh(), self.shard
        assert fresh.transactions == live.transactions
        assert fresh.held_bytes == live.held_bytes
