"""A Produce with one batch: the broker says, writes and counts what it does for those with many."""

import gc
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.api.asking import batch, create, idempotent, to
from tests.api.harness import NOW, Client, Machine
from tests.support.metrics import metrics_of

from ottla.api import single_produce
from ottla.api.call import CloseConnection
from ottla.base.errors import ErrorCode
from ottla.base.ids import OFFSETS_TOPIC
from ottla.broker.effects import RunJob, SyncLog
from ottla.log.validation import ITEMS_AT_ONCE, LargeCheck
from ottla.records.compression import Codec
from ottla.wire.messages.produce import ProduceRequest
from ottla.wire.single_batch import READERS

DAMAGED = batch("v")[:-1] + b"\1"
BATCHES = [
    batch("v"),
    batch("v", "w", "x"),
    batch(*["again"] * 50, codec=Codec.GZIP),
    batch("v", codec=Codec.ZSTD),
    batch("too early", at=NOW - 1_000),
    batch("too late", at=NOW + 1_000_000_000),
    *(idempotent(sequence, "v") for sequence in (0, 0, 1, 1, 2, 5)),
    idempotent(0, "v", transactional=True),
    DAMAGED,
    batch("v") + batch("w"),
    b"",
    b"short",
    None,
]
TOPICS = ["t", "t", "t", "synced", "stamped", "nowhere", OFFSETS_TOPIC]
SENT = st.tuples(
    st.sampled_from(sorted({3, *READERS})),
    st.sampled_from([-1, -1, 1, 1, 0, 2]),
    st.sampled_from(TOPICS),
    st.sampled_from(BATCHES),
    st.sampled_from([1, 1, 1, 2]),
)


def started() -> tuple[Machine, Client, dict[str, bytes]]:
    machine = Machine({"auto.create.topics.enable": "false"})
    client = machine.client()
    configs: dict[str, dict[str, str]] = {
        "t": {},
        "synced": {"flush_messages": "1"},
        "stamped": {"message_timestamp_type": "LogAppendTime"},
    }
    return machine, client, {name: create(client, name, 2, **configs[name]) for name in configs}


def run(sent: list[Any]) -> tuple[list[Any], dict[str, float], dict[str, bytes], int]:
    """What a broker answers to all of it, what it has counted then, and what it has written."""
    machine, _, ids = started()
    machine.hold(SyncLog)
    answers = []
    for version, acks, topic, records, count in sent:
        request = to(topic, *[records] * count, acks=acks, topic_id=ids.get(topic, bytes(15) + b"\1"))
        answers.append(ask(machine, machine.client(), request, version))
    left = machine.broker.allowance.items_left
    files = {path: bytes(node.data) for path, node in machine.disk.nodes.items() if path.endswith(".log")}
    return answers, metrics_of(machine.broker, machine.now_ms), files, left


def ask(machine: Machine, client: Client, request: ProduceRequest, version: int) -> Any:
    try:
        pending = client.ask(request, version)
    except CloseConnection as closed:
        return str(closed)
    at_once = pending.answer
    machine.release(still_hold=True)
    return at_once, pending.answer, pending.wants_no_reply


@given(st.lists(SENT, min_size=1, max_size=6))
@settings(max_examples=150, deadline=None)
def test_what_is_answered_written_and_counted_is_the_same_the_long_way(sent: list[Any]) -> None:
    outcome = run(sent)
    with patch.dict(READERS, clear=True):
        assert run(sent) == outcome


@pytest.mark.parametrize("acks", [-1, 1])
def test_one_batch_takes_the_short_way(acks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _, client, _ = started()
    monkeypatch.setattr(single_produce, "request_of", lambda _single: pytest.fail("it took the long way"))
    answer = client.send(to("t", batch("v"), acks=acks), 9)
    assert answer.responses[0].partition_responses[0].base_offset == 0


def test_a_batch_that_costs_too_much_goes_to_a_worker_also_late_in_a_round() -> None:
    """What it has cost when it was tried is not held against it a second time."""
    machine, client, _ = started()
    machine.is_one_round = True
    machine.hold(RunJob)
    machine.broker.allowance.items_left = ITEMS_AT_ONCE
    pending = client.ask(to("t", batch(*("v" * (number % 13) for number in range(40_000)))), 9)
    (key,) = machine.broker.waiting.by_key
    assert isinstance(key, LargeCheck)
    machine.release()
    assert pending.answer.responses[0].partition_responses[0].base_offset == 0


def test_a_refused_batch_leaves_no_circle_of_objects_behind() -> None:
    """In it would be the frame that the batch came in, of up to 100 MiB."""
    _, client, _ = started()
    refused = to("t", DAMAGED)
    client.send(refused, 9)
    gc.collect()
    gc.disable()
    try:
        answer = client.send(refused, 9)
        assert gc.collect() == 0
    finally:
        gc.enable()
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.CORRUPT_MESSAGE
