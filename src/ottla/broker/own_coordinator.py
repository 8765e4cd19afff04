"""Questions about transactions that this broker coordinates itself: the shard answers, without a request."""

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition
from ottla.broker.leadership_proofs import Proofs
from ottla.broker.operations import Operation
from ottla.broker.parked import Key, Parked, Waiting
from ottla.broker.ports import OnVerified, Question
from ottla.broker.transactions import Completed, Transactions
from ottla.broker.verification import CHANNEL
from ottla.coordinator.turn import Answer, Turn
from ottla.replication.partition import Partition
from ottla.txn.shard import Producer, TransactionShard
from ottla.txn.transaction import EPOCH_BUMP_SINCE


@dataclass(slots=True)
class OwnCoordinator:
    transactions: Transactions
    partitions: Mapping[TopicPartition, Partition]
    proofs: Proofs
    waiting: Waiting

    def partition_of(self, transactional_id: str) -> TopicPartition:
        return self.transactions.partition_of(transactional_id)

    def answer(self, question: Question, then: OnVerified, now_ms: int) -> None:
        """Nothing is added while the transaction before is being completed: that is waited for."""
        transactional_id = question.transactional_id
        until_ms = question.asked_ms + self.transactions.config.add_retry_ms_max

        def answer_at(due_ms: int) -> bool:
            self._answer(question, then, due_ms)
            return True

        def ready(_key: Key, ready_ms: int) -> bool | None:
            return None if self.transactions.is_completing(transactional_id) else answer_at(ready_ms)

        if not question.adds or now_ms >= until_ms or not self.transactions.is_completing(transactional_id):
            self._answer(question, then, now_ms)
            return
        self.waiting.park(
            Parked(
                keys=(Completed(transactional_id),), deadline_ms=until_ms, ready=ready, expire=answer_at,
                owner=CHANNEL, reply=lambda _answered: None,
            )
        )  # fmt: skip

    def _answer(self, question: Question, then: OnVerified, now_ms: int) -> None:
        """As every answer of a coordinator it waits until what it rests on is committed."""

        def operate(shard: TransactionShard, turn: Turn, answer: Answer) -> None:
            asked = question.topic_partitions
            producer = Producer(question.transactional_id, question.producer_id, question.producer_epoch)
            if question.adds:
                shard.add_partitions(turn, answer, producer, asked, EPOCH_BUMP_SINCE, {})
            else:
                shard.verify(turn, answer, producer, asked, dict)

        def refuse(error: ApiError) -> dict[TopicPartition, ErrorCode]:
            return dict.fromkeys(question.topic_partitions, error.code)

        operation = Operation(
            self.partitions,
            self.proofs,
            self.transactions,
            question.transactional_id,
            operate,
            refuse,
            now_ms,
        )
        if operation.reply is not None:
            then(operation.reply, now_ms)
            return

        def at(reply: dict[TopicPartition, ErrorCode] | None, now_ms: int) -> tuple[object, int] | None:
            return None if reply is None else (reply, now_ms)

        self.waiting.park(
            Parked(
                keys=operation.keys,
                deadline_ms=now_ms + self.transactions.commit_timeout_ms,
                ready=lambda _key, ready_ms: at(operation.ready(ready_ms), ready_ms),
                expire=lambda expired_ms: at(operation.expire(), expired_ms),
                owner=CHANNEL,
                reply=lambda told: then(*told),
            )
        )
