"""Coordinators are asked whether partitions take part in a transaction."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.support.endpoints import plaintext

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.broker.parked import Waiting
from ottla.broker.ports import OnVerified, Question
from ottla.broker.verification import ASKED_MAX, Verifier
from ottla.controller import znodes
from ottla.controller.image import Image
from ottla.controller.keeper import NodeChanged
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)

TOPIC = "__transaction_state"
HERE, THERE, NOWHERE = 0, 1, 2  # partitions of it, by who leads them
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@dataclass(eq=False)
class World:
    """Broker 1, which coordinates ids that begin with "here"; broker 2 those that begin with "there"."""

    image: Image = field(default_factory=Image)
    waiting: Waiting = field(default_factory=Waiting)
    sent: list[tuple[int, AddPartitionsToTxnRequest, Callable[[Any, int], None]]] = field(
        default_factory=list
    )
    answers: dict[str, dict[TopicPartition, ErrorCode]] = field(default_factory=dict)
    told: dict[str, tuple[dict[TopicPartition, ErrorCode], int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for broker in (1, 2):
            node = znodes.broker_node(plaintext("host", broker), None)
            self.image.apply(NodeChanged(znodes.BROKERS + str(broker), node, 0, broker))
        states = {HERE: (1, 0, (1,)), THERE: (2, 0, (2,)), NOWHERE: (-1, 0, (3,))}
        node = znodes.topic_node(b"i" * 16, dict.fromkeys(states, (1,)))
        self.image.apply(NodeChanged(znodes.topic_path(TOPIC), node, 0))
        self.image.apply(NodeChanged(znodes.state_path(TOPIC), znodes.state_node(1, states), 0))
        self.verifier = Verifier(
            1, self.image, lambda peer, _, request, then: self.sent.append((peer, request, then)), self,
            self.waiting, retry_ms=20, retry_ms_max=100,
        )  # fmt: skip

    def partition_of(self, transactional_id: str) -> TopicPartition:
        places = {"here": HERE, "there": THERE, "nowhere": NOWHERE}
        return TopicPartition(TOPIC, places[transactional_id.partition("-")[0]])

    def answer(self, question: Question, then: OnVerified, now_ms: int) -> None:
        then(self.answers.get(question.transactional_id, {}), now_ms)

    def verify(
        self,
        transactional_id: str,
        *topic_partitions: TopicPartition,
        adds: bool = False,
        epoch: int = 0,
        producer_id: int = 7,
        now_ms: int = 0,
    ) -> str:
        """Under which name `told` has the answer."""
        name = f"{transactional_id} {epoch} {len(self.told)} {now_ms}"

        def then(errors: dict[TopicPartition, ErrorCode], told_ms: int) -> None:
            assert name not in self.told, "told once"
            self.told[name] = errors, told_ms

        self.verifier.verify(
            Question(transactional_id, producer_id, epoch, topic_partitions or (T0,), adds, then, now_ms)
        )
        return name

    def reply(self, codes: dict[str, dict[TopicPartition, int]], now_ms: int = 0) -> None:
        """To the oldest request."""
        _, request, then = self.sent.pop(0)
        results = [
            AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id,
                topic_results=[
                    AddPartitionsToTxnTopicResult(
                        name=topic.name,
                        results_by_partition=[
                            AddPartitionsToTxnPartitionResult(
                                partition_index=index,
                                partition_error_code=codes.get(transaction.transactional_id, {}).get(
                                    TopicPartition(topic.name, index), 0
                                ),
                            )
                            for index in topic.partitions
                        ],
                    )
                    for topic in transaction.topics
                ],
            )
            for transaction in request.transactions
        ]
        then(AddPartitionsToTxnResponse(results_by_transaction=results), now_ms)

    def asked(self) -> list[list[str]]:
        return [[asked.transactional_id for asked in request.transactions] for _, request, _ in self.sent]


@pytest.fixture
def world() -> World:
    return World()


def test_where_this_broker_coordinates_nothing_is_sent(world: World) -> None:
    world.answers["here"] = {T1: ErrorCode.TRANSACTION_ABORTABLE}
    name = world.verify("here", T0, T1)
    assert (world.told[name], world.sent) == (({T1: ErrorCode.TRANSACTION_ABORTABLE}, 0), [])


@pytest.mark.parametrize("adds", [False, True])
def test_another_coordinator_is_sent_a_request(world: World, adds: bool) -> None:
    name = world.verify("there", T0, T1, adds=adds, epoch=3)
    ((peer, request, _),) = world.sent
    (asked,) = request.transactions
    assert (peer, asked.transactional_id, asked.producer_id, asked.producer_epoch) == (2, "there", 7, 3)
    assert asked.verify_only is not adds
    assert [(topic.name, topic.partitions) for topic in asked.topics] == [("t", [0, 1])]
    assert world.told == {}
    world.reply({"there": {T1: ErrorCode.INVALID_TXN_STATE}}, now_ms=5)
    assert world.told[name] == ({T1: ErrorCode.INVALID_TXN_STATE}, 5)


def test_what_is_asked_meanwhile_goes_in_the_next_request(world: World) -> None:
    for name in ("there-1", "there-2", "there-3"):
        world.verify(name)
    assert world.asked() == [["there-1"]]
    world.reply({})
    assert world.asked() == [["there-2", "there-3"]]
    world.reply({})
    assert len(world.told) == 3
    assert world.sent == []


def test_a_request_has_a_largest_size(world: World) -> None:
    for number in range(ASKED_MAX + 5):
        world.verify(f"there-{number}")
    world.reply({})
    world.reply({})
    assert [len(asked) for asked in world.asked()] == [4]


def test_a_transactional_id_is_in_a_request_once_and_who_asks_again_waits_for_the_next(world: World) -> None:
    world.verify("there-0")
    world.verify("there", T0)
    world.verify("there", T1, now_ms=1)
    world.reply({})
    assert world.asked() == [["there"]]
    world.reply({})
    assert world.asked() == [["there"]]
    world.reply({})
    assert [errors for errors, _ in world.told.values()] == [{}, {}, {}]


def test_of_two_transactions_of_one_id_that_wait_the_older_is_fenced(world: World) -> None:
    world.verify("there-0")
    old = world.verify("there", epoch=1)
    new = world.verify("there", epoch=2)
    late = world.verify("there", epoch=1, now_ms=9)
    fenced = {T0: ErrorCode.INVALID_PRODUCER_EPOCH}
    assert (world.told[old][0], world.told[late][0]) == (fenced, fenced)
    assert new not in world.told
    world.reply({})
    world.reply({})
    assert world.told[new][0] == {}


def test_a_producer_that_is_fenced_is_told_that_its_epoch_is_past(world: World) -> None:
    name = world.verify("there")
    world.reply({"there": {T0: ErrorCode.PRODUCER_FENCED}})
    assert world.told[name][0] == {T0: ErrorCode.INVALID_PRODUCER_EPOCH}


def test_without_a_coordinator_there_is_no_answer_to_wait_for(world: World) -> None:
    name = world.verify("nowhere")
    assert world.told[name][0] == {T0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    world.image.apply(NodeChanged(znodes.topic_path(TOPIC), None, 0))
    name = world.verify("there", now_ms=1)
    assert world.told[name][0] == {T0: ErrorCode.COORDINATOR_NOT_AVAILABLE}


def test_a_coordinator_that_is_gone_is_a_network_exception(world: World) -> None:
    name = world.verify("there", T0, T1)
    world.sent.pop()[2](None, 4)
    assert world.told[name] == (dict.fromkeys((T0, T1), ErrorCode.NETWORK_EXCEPTION), 4)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
def test_an_error_of_the_whole_request_is_everybodys(world: World, said: ErrorCode, told: ErrorCode) -> None:
    name = world.verify("there")
    world.sent.pop()[2](AddPartitionsToTxnResponse(error_code=said), 0)
    assert world.told[name][0] == {T0: told}


def test_a_coordinator_that_says_nothing_of_a_partition_has_not_confirmed_it(world: World) -> None:
    name = world.verify("there")
    world.sent.pop()[2](AddPartitionsToTxnResponse(), 0)
    assert world.told[name][0] == {T0: ErrorCode.NETWORK_EXCEPTION}


@pytest.mark.parametrize("where", ["here", "there"])
def test_what_cannot_be_added_yet_is_added_a_moment_later(world: World, where: str) -> None:
    concurrent = {T0: ErrorCode.CONCURRENT_TRANSACTIONS}
    world.answers["here"] = concurrent
    name = world.verify(where, adds=True)
    if where == "there":
        world.reply({"there": dict(concurrent)})
    assert world.told == {}
    assert world.waiting.next_deadline_ms() == 20
    world.answers.clear()
    world.waiting.on_tick(20)
    if where == "there":
        world.reply({}, now_ms=20)
    assert world.told[name] == ({}, 20)
    assert world.waiting.next_deadline_ms() is None


def test_it_is_not_tried_for_ever(world: World) -> None:
    concurrent = world.answers["here"] = {T0: ErrorCode.CONCURRENT_TRANSACTIONS}
    name = world.verify("here", adds=True)
    while (due_ms := world.waiting.next_deadline_ms()) is not None:
        world.waiting.on_tick(due_ms)
    assert world.told[name] == (concurrent, 100)


def test_a_verification_is_not_tried_again(world: World) -> None:
    concurrent = world.answers["here"] = {T0: ErrorCode.CONCURRENT_TRANSACTIONS}
    name = world.verify("here")
    assert world.told[name] == (concurrent, 0)


def test_the_epoch_of_another_producer_id_refuses_nobody(world: World) -> None:
    world.verify("there-0")
    before = world.verify("there", epoch=32_766)
    after = world.verify("there", epoch=0, producer_id=8)
    assert world.told == {}
    for _ in range(3):
        world.reply({})
    assert (world.told[before], world.told[after]) == (({}, 0), ({}, 0))
