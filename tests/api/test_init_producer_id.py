"""InitProducerId: ids for idempotent producers, in blocks, never twice."""

import pytest
from tests.api.harness import Client, Machine
from tests.log.simdisk import power_loss

from ottla.api.init_producer_id import WAIT_MS
from ottla.base.errors import ErrorCode
from ottla.broker.effects import WriteNodes
from ottla.broker.producer_ids import BLOCK_IDS
from ottla.wire.messages.init_producer_id import InitProducerIdRequest

ASK = InitProducerIdRequest(transaction_timeout_ms=-1)


def new_id(client: Client) -> int:
    answer = client.send(ASK)
    assert (answer.error_code, answer.producer_epoch) == (ErrorCode.NONE, 0)
    producer_id: int = answer.producer_id
    return producer_id


def test_ids_count_up_and_the_keeper_is_asked_once_per_block() -> None:
    machine = Machine()
    client = machine.client()
    assert [new_id(client) for _ in range(BLOCK_IDS)] == list(range(BLOCK_IDS))
    writes = machine.broker.outbox._last_token
    assert writes == 1
    assert new_id(client) == BLOCK_IDS
    assert machine.broker.outbox._last_token == 2


def test_the_first_of_a_block_waits_for_the_keeper_and_the_others_do_not() -> None:
    machine = Machine()
    client = machine.client()
    machine.hold(WriteNodes)
    pending = client.ask(ASK)
    assert pending.answer is None
    machine.release(still_hold=True)
    assert pending.answer.producer_id == 0
    assert new_id(client) == 1


def test_requests_that_race_for_a_block_share_one() -> None:
    machine = Machine()
    machine.hold(WriteNodes)
    pending = [machine.client().ask(ASK) for _ in range(3)]
    machine.release()
    assert [one.answer.producer_id for one in pending] == [0, 1, 2]
    assert machine.broker.image.producer_id_block_end == BLOCK_IDS - 1


def test_a_client_that_goes_away_costs_a_block_and_nobody_gets_an_id_twice() -> None:
    machine = Machine()
    impatient, patient = machine.client(), machine.client()
    machine.hold(WriteNodes)
    impatient.ask(ASK)
    pending = patient.ask(ASK)
    impatient.close()
    machine.release()
    assert pending.answer.producer_id == BLOCK_IDS
    assert new_id(machine.client()) == BLOCK_IDS + 1


@pytest.mark.parametrize("how", ["restart", "crash", "power loss"])
def test_a_broker_that_starts_again_never_gives_an_id_twice(how: str) -> None:
    machine = Machine()
    given = {new_id(machine.client()) for _ in range(3)}
    if how == "restart":
        machine.restart()
    else:
        machine.crash(*([power_loss] if how == "power loss" else []))
    again = new_id(machine.client())
    assert again == BLOCK_IDS
    assert again not in given


def test_a_keeper_that_does_not_answer_is_a_timeout() -> None:
    machine = Machine()
    client = machine.client()
    machine.hold(WriteNodes)
    pending = client.ask(ASK)
    machine.pass_time(WAIT_MS)
    assert (pending.answer.error_code, pending.answer.producer_id) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    machine.release()
    assert new_id(client) == BLOCK_IDS, "the block that came too late is lost"


def test_a_producer_that_had_an_id_gets_a_new_one() -> None:
    client = Machine().client()
    answer = client.send(InitProducerIdRequest(transaction_timeout_ms=1, producer_id=7, producer_epoch=4), 3)
    assert (answer.producer_id, answer.producer_epoch) == (0, 0)


@pytest.mark.parametrize(("producer_id", "epoch"), [(7, -1), (-1, 7)])
def test_an_id_without_an_epoch_makes_no_sense(producer_id: int, epoch: int) -> None:
    ask = InitProducerIdRequest(transaction_timeout_ms=1, producer_id=producer_id, producer_epoch=epoch)
    assert Machine().client().send(ask).error_code == ErrorCode.INVALID_REQUEST


def test_an_empty_transactional_id_is_invalid() -> None:
    ask = InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1)
    answer = Machine().client().send(ask)
    assert (answer.error_code, answer.producer_epoch) == (ErrorCode.INVALID_REQUEST, -1)
