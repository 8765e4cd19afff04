"""Produce of what is large, or of much at once: it waits, and nobody waits for it."""

import pytest
from tests.api.asking import (
    BY_NAME,
    ask_for_two_in_sync,
    batch,
    create,
    fetch,
    idempotent,
    lead,
    produce,
    records,
    to,
    values,
)
from tests.api.harness import NOW, Client, Machine, Pending

from ottla.base.errors import ErrorCode
from ottla.broker.effects import RunJob
from ottla.broker.parked import ROUND
from ottla.log.validation import ITEMS_AT_ONCE, items_at_once
from ottla.records.builder import NewRecord, build_batch
from ottla.records.compression import Codec
from ottla.wire.messages.produce import ProduceRequest

OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def started(**configs: str) -> tuple[Machine, Client]:
    machine = Machine()
    client = machine.client()
    create(client, "t", **configs)
    return machine, client


def large(**fields: int) -> bytes:
    """A batch that takes longer to check than others can wait."""
    records = [NewRecord(b"k", b"v" * (number % 3), (), NOW) for number in range(ITEMS_AT_ONCE + 1000)]
    return bytes(build_batch(records, codec=Codec.ZSTD, **fields))


def held_back(**configs: str) -> tuple[Machine, Client]:
    machine, client = started(**configs)
    machine.hold(RunJob)
    return machine, client


def test_a_large_batch_waits_for_its_check_and_nobody_waits_for_it() -> None:
    machine, client = held_back()
    pending = client.ask(to("t", large()), BY_NAME)
    assert pending.answer is None
    assert produce(machine.client(), "t", batch("a")).base_offset == 0
    machine.release()
    (reply,) = pending.answer.responses[0].partition_responses
    assert (reply.error_code, reply.base_offset) == (ErrorCode.NONE, 1)
    assert len(records(fetch(client, "t", 1))) == ITEMS_AT_ONCE + 1000


def test_batches_behind_a_large_one_keep_their_order() -> None:
    machine, client = held_back()
    create(client, "two", 2)
    pending = client.ask(to("two", large(), batch("b")), BY_NAME)
    assert machine.broker.partitions[("two", 1)].log.log_end_offset == 0
    machine.release()
    replies = pending.answer.responses[0].partition_responses
    assert [(reply.index, reply.error_code) for reply in replies] == [(0, 0), (1, 0)]
    assert machine.broker.partitions[("two", 1)].log.log_end_offset == 1


def test_a_large_batch_that_is_wrong_is_refused_after_its_check() -> None:
    machine, client = held_back(cleanup_policy="compact")
    records_ = [NewRecord(None, b"v" * (number % 3), (), NOW) for number in range(ITEMS_AT_ONCE + 1000)]
    pending = client.ask(to("t", bytes(build_batch(records_))), BY_NAME)
    machine.release()
    (reply,) = pending.answer.responses[0].partition_responses
    assert reply.error_code == ErrorCode.INVALID_RECORD
    assert reply.record_errors[0].batch_index == 0


def test_with_acks_0_a_large_batch_is_written_and_nothing_is_answered() -> None:
    machine, client = held_back()
    pending = client.ask(to("t", large(), acks=0), BY_NAME)
    assert not pending.wants_no_reply
    machine.release()
    assert pending.wants_no_reply
    assert machine.broker.partitions[("t", 0)].log.log_end_offset == ITEMS_AT_ONCE + 1000
    failing = client.ask(to("t", large(), batch("no such partition"), acks=0), BY_NAME)
    machine.release()
    assert failing.answer is None
    assert "acks=0" in (client.closed or "")


def test_nothing_is_checked_for_a_client_that_is_gone() -> None:
    machine, client = held_back()
    client.ask(to("t", large()), BY_NAME)
    client.close()
    machine.release()
    assert machine.broker.partitions[("t", 0)].log.log_end_offset == 0


def test_a_check_that_does_not_come_in_time_is_a_timeout_and_nothing_is_written() -> None:
    machine, client = held_back()
    pending = client.ask(to("t", large(), timeout_ms=1000), BY_NAME)
    machine.pass_time(31_000)
    (reply,) = pending.answer.responses[0].partition_responses
    assert (reply.error_code, reply.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    machine.release()
    assert machine.broker.partitions[("t", 0)].log.log_end_offset == 0


def test_a_batch_whose_leader_has_changed_during_its_check_is_not_written() -> None:
    machine, client = held_back()
    pending = client.ask(to("t", large()), BY_NAME)
    lead(machine, "t", leader=2, epoch=5)
    machine.release()
    (reply,) = pending.answer.responses[0].partition_responses
    assert reply.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_request_of_many_batches_lets_others_in_between() -> None:
    machine, client = held_back()
    machine.is_one_round = True
    names = ["wide", "broad", "long", "deep"]
    for name in names:
        create(client, name, 50)
    topics = [to(name, *[batch()] * 50).topic_data[0] for name in names]
    pending = client.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics), BY_NAME)
    turns = 0
    while pending.answer is None:
        turns += 1
        written = [id for id, one in machine.broker.partitions.items() if one.log.log_end_offset]
        assert len(written) <= turns * (items_at_once(200 * len(batch())) // 16 + 1)
        machine.begin_round()
        machine.carry_out()
    assert turns
    assert machine.held == []  # nothing of it was large
    replies = [reply for topic in pending.answer.responses for reply in topic.partition_responses]
    assert [(reply.index, reply.base_offset) for reply in replies] == [(at, 0) for at in range(50)] * 4


# -- many at once --------------------------------------------------------------------------------------------


def varied(count: int, **fields: int) -> bytes:
    return bytes(build_batch([NewRecord(b"k", b"v" * (n % 50), (), NOW) for n in range(count)], **fields))


def in_one_round(*sent: bytes) -> tuple[Machine, list[Pending]]:
    machine, _ = held_back(max_message_bytes="20000000")
    machine.is_one_round = True
    return machine, [machine.client().ask(to("t", one), BY_NAME) for one in sent]


def test_many_clients_together_do_no_more_at_once_than_one() -> None:
    """Batches that each could be checked at once, but not all in one round of the loop."""
    machine, asked = in_one_round(*8 * [varied(ITEMS_AT_ONCE // 2)])
    rounds, done = 1, 0
    while any(pending.answer is None for pending in asked):
        before, done = done, sum(pending.answer is not None for pending in asked)
        assert 1 <= done - before <= 4
        assert produce(machine.client(), "t", batch("small")).error_code == ErrorCode.NONE
        machine.begin_round()
        machine.carry_out()
        rounds += 1
    assert rounds >= 2
    assert machine.held == []  # no thread was needed


def test_an_ordinary_batch_waits_for_the_next_round_and_not_for_the_large_ones_of_others() -> None:
    machine, _ = in_one_round(*4 * [large()], *3 * [varied(30_000)])
    honest = machine.client().ask(to("t", varied(200)), BY_NAME)
    assert honest.answer is None
    machine.begin_round()
    machine.carry_out()
    assert honest.answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    assert 1 <= len([effect for effect in machine.held if isinstance(effect, RunJob)]) <= 4


def test_who_waits_longest_is_served_in_every_round_whoever_comes_later() -> None:
    machine, asked = in_one_round(*4 * [varied(30_000)])
    late = [pending for pending in asked if pending.answer is None]
    assert late
    others = []
    for _ in range(2 * len(late)):  # together more than a round has
        others += [machine.client().ask(to("t", varied(2_000)), BY_NAME) for _ in range(40)]
        machine.begin_round()
        machine.carry_out()
    assert all(pending.answer is not None for pending in late)
    assert len([pending for pending in others if pending.answer is not None]) >= 2 * len(late)


def test_what_a_client_that_is_gone_waits_for_is_not_kept() -> None:
    machine, _ = in_one_round(*2 * [varied(32_000)])
    client = machine.client()
    client.ask(to("t", varied(2_000)), BY_NAME)
    assert ROUND in machine.broker.waiting.by_key
    client.close()
    assert ROUND not in machine.broker.waiting.by_key


# -- who waited too long -------------------------------------------------------------------------------------


@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_what_is_behind_a_batch_that_got_no_turn_is_never_served(acks: int) -> None:
    """Or it would be taken for the first of its producer, and the one before it for out of order."""
    machine, client = held_back()
    first = large(producer_id=7, producer_epoch=0, base_sequence=0)
    pending = client.ask(to("t", first, acks=acks), BY_NAME)
    machine.pass_time(30_001)
    assert (pending.answer, pending.wants_no_reply) == (None, False)
    assert client.closed
    machine.release()
    assert machine.broker.partitions[("t", 0)].log.log_end_offset == 0
    again = machine.client()
    pending = again.ask(to("t", first), BY_NAME)
    assert pending.answer.responses[0].partition_responses[0].base_offset == 0
    assert produce(again, "t", idempotent(ITEMS_AT_ONCE + 1000, "b")).base_offset == ITEMS_AT_ONCE + 1000


def test_what_was_written_before_the_batch_that_got_no_turn_is_a_duplicate_when_it_is_sent_again() -> None:
    machine, client = held_back()
    create(client, "two", 2)
    sent = to("two", idempotent(0, "a"), large(producer_id=7, producer_epoch=0, base_sequence=0))
    client.ask(sent, BY_NAME)
    machine.pass_time(30_001)
    assert client.closed
    machine.release()
    replies = machine.client().send(sent, BY_NAME).responses[0].partition_responses
    assert [(reply.error_code, reply.base_offset) for reply in replies] == 2 * [(ErrorCode.NONE, 0)]
    assert values(fetch(machine.client(), "two", 0)) == ["a"]


def test_the_first_batch_of_a_producer_is_not_taken_for_done_when_it_was_refused() -> None:
    """Too few replicas, say, and enough of them for the one behind it: as in Kafka, that one is taken."""
    machine, client = started()
    ask_for_two_in_sync(machine, "t")
    assert produce(client, "t", idempotent(0, "a")).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert produce(client, "t", idempotent(1, "b"), acks=1).error_code == ErrorCode.NONE
    assert produce(client, "t", idempotent(0, "a"), acks=1).error_code == OUT_OF_ORDER


def test_what_waits_for_its_check_counts_as_held_by_its_client() -> None:
    machine, client = held_back()
    sent = large()
    client.ask(to("t", sent, batch("no such partition")), BY_NAME)
    assert machine.broker.waiting.held_bytes(client.number) >= len(sent)
    machine.release()
    assert machine.broker.waiting.held_bytes(client.number) == 0


def test_with_acks_0_what_waits_outlives_its_client_and_else_it_does_not() -> None:
    machine, client = held_back()
    client.ask(to("t", large(), acks=0), BY_NAME)
    assert machine.broker.waiting.outlives_client(client.number)
    other = machine.client()
    other.ask(to("t", large()), BY_NAME)
    assert not machine.broker.waiting.outlives_client(other.number)
    machine.release()
    assert not machine.broker.waiting.outlives_client(client.number)
