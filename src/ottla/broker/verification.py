"""Whether partitions take part in a transaction: its coordinator is asked, wherever that is (KIP-890), with
AddPartitionsToTxn (key 24), or without any request where this broker coordinates.

Rules: one request is under way to a coordinator, with all that is asked of it meanwhile; the next has what
comes until then. A transactional id is in a request once: whoever asks for the same transaction waits for the
next, whoever asks for an older one of it is told that its epoch is past. What the coordinator cannot add
because the transaction before is still being completed is asked again for a moment (KAFKA-18575): a client
that has heard of the end begins the next at once.

Errors are the coordinator's, with two exceptions, as in Kafka: a producer is told INVALID_PRODUCER_EPOCH and
not PRODUCER_FENCED, and INVALID_TXN_STATE where the coordinator does not take us for a broker.
"""

from functools import partial
from typing import Any, Final, Protocol

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.broker.parked import Parked, Waiting
from ottla.broker.ports import OnVerified, Question, SendRequest
from ottla.controller.image import Image
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

CHANNEL: Final = "transaction verification"
ASKED_MAX: Final = 500  # transactions in one request

_TOLD = {ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH}


class LocalCoordinator(Protocol):
    """The coordinator of transactions on this broker."""

    def partition_of(self, transactional_id: str) -> TopicPartition: ...

    def answer(self, question: Question, then: OnVerified, now_ms: int) -> None:
        """Answer a question about a transaction that this broker coordinates."""


class Verifier:
    """`coordinator` is this broker's own; partitions are added again every `retry_ms`, for `retry_ms_max`."""

    def __init__(
        self,
        broker_id: int,
        image: Image,
        send: SendRequest,
        coordinator: LocalCoordinator,
        waiting: Waiting,
        retry_ms: int,
        retry_ms_max: int,
    ) -> None:
        self._broker_id = broker_id
        self._image = image
        self._send = send
        self._coordinator = coordinator
        self._waiting = waiting
        self._retry_ms = retry_ms
        self._retry_ms_max = retry_ms_max
        self._queues: dict[int, list[Question]] = {}  # by coordinator
        self._is_asked: set[int] = set()  # to which a request is under way

    def verify(self, question: Question) -> None:
        self._ask(question, question.asked_ms)

    # -- questions --

    def _ask(self, question: Question, now_ms: int) -> None:
        topic, index = self._coordinator.partition_of(question.transactional_id)
        states = self._image.topics[topic].states if topic in self._image.topics else {}
        leader = states[index].leader if index in states else -1
        if leader == self._broker_id:
            self._coordinator.answer(question, partial(self._on_told, question), now_ms)
        elif leader not in self._image.brokers:
            self._refuse(question, ErrorCode.COORDINATOR_NOT_AVAILABLE, now_ms)
        elif self._is_current(question, leader, now_ms):
            self._queues.setdefault(leader, []).append(question)
            self._send_next(leader)

    def _is_current(self, question: Question, leader: int, now_ms: int) -> bool:
        """Of one transactional id only what is asked with the latest epoch has a chance. Those of another
        producer id say nothing of it: the next begins with 0, and anybody makes them up."""
        queue, asks = self._queues.get(leader, []), (question.transactional_id, question.producer_id)
        same = [waiting for waiting in queue if (waiting.transactional_id, waiting.producer_id) == asks]
        for waiting in same:
            if waiting.producer_epoch < question.producer_epoch:
                queue.remove(waiting)
                self._refuse(waiting, ErrorCode.INVALID_PRODUCER_EPOCH, now_ms)
            elif waiting.producer_epoch > question.producer_epoch:
                self._refuse(question, ErrorCode.INVALID_PRODUCER_EPOCH, now_ms)
                return False
        return True

    def _send_next(self, leader: int) -> None:
        if leader in self._is_asked or leader not in self._queues:
            return
        asked: dict[str, Question] = {}
        later = list[Question]()
        for question in self._queues.pop(leader):
            if question.transactional_id in asked or len(asked) >= ASKED_MAX:
                later.append(question)
            else:
                asked[question.transactional_id] = question
        if later:
            self._queues[leader] = later
        if asked:
            self._is_asked.add(leader)
            self._send(leader, CHANNEL, _request(asked), partial(self._on_answer, leader, asked))

    # -- answers --

    def _on_answer(self, leader: int, asked: dict[str, Question], answer: Any, now_ms: int) -> None:
        self._is_asked.discard(leader)
        code = ErrorCode.NETWORK_EXCEPTION if answer is None else ErrorCode(answer.error_code)
        if code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            code = ErrorCode.INVALID_TXN_STATE
        results: dict[str, dict[TopicPartition, ErrorCode]] = {}
        if code == ErrorCode.NONE:
            for result in answer.results_by_transaction:
                results[result.transactional_id] = {
                    TopicPartition(topic.name, part.partition_index): ErrorCode(part.partition_error_code)
                    for topic in result.topic_results
                    for part in topic.results_by_partition
                }
            code = ErrorCode.NETWORK_EXCEPTION  # for whatever it says nothing of
        for transactional_id, question in asked.items():
            told = results.get(transactional_id, {})
            codes = {
                topic_partition: told.get(topic_partition, code)
                for topic_partition in question.topic_partitions
            }
            self._on_told(question, codes, now_ms)
        self._send_next(leader)

    def _refuse(self, question: Question, code: ErrorCode, now_ms: int) -> None:
        self._on_told(question, dict.fromkeys(question.topic_partitions, code), now_ms)

    def _on_told(self, question: Question, codes: dict[TopicPartition, ErrorCode], now_ms: int) -> None:
        if (
            question.adds
            and ErrorCode.CONCURRENT_TRANSACTIONS in codes.values()
            and now_ms - question.asked_ms < self._retry_ms_max
        ):
            self._ask_later(question, now_ms)
            return
        errors = {
            topic_partition: _TOLD.get(code, code)
            for topic_partition, code in codes.items()
            if code != ErrorCode.NONE
        }
        question.then(errors, now_ms)

    def _ask_later(self, question: Question, now_ms: int) -> None:
        self._waiting.park(
            Parked(
                keys=(), deadline_ms=now_ms + self._retry_ms, owner=CHANNEL, reply=lambda _answer: None,
                ready=lambda _key, _now_ms: None, expire=lambda due_ms: self._ask(question, due_ms),
            )
        )  # fmt: skip


def _request(asked: dict[str, Question]) -> AddPartitionsToTxnRequest:
    transactions = []
    for question in asked.values():
        topics: dict[str, AddPartitionsToTxnTopic] = {}
        for name, index in question.topic_partitions:
            topics.setdefault(name, AddPartitionsToTxnTopic(name=name)).partitions.append(index)
        transactions.append(
            AddPartitionsToTxnTransaction(
                transactional_id=question.transactional_id,
                producer_id=question.producer_id,
                producer_epoch=question.producer_epoch,
                verify_only=not question.adds,
                topics=list(topics.values()),
            )
        )
    return AddPartitionsToTxnRequest(transactions=transactions)
