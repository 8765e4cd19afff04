"""What the cleaner owes, what it did and what it cannot do is said, and can be asked for."""

import logging

import pytest
from tests.api.asking import batch, create, produce
from tests.api.harness import Machine

from ottla.base.ids import TopicPartition
from ottla.broker.effects import CleanLog
from ottla.broker.status import Debt, status
from ottla.log.compaction.rewrite import clean
from ottla.log.compaction.task import CleanFailed

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def dirty() -> Machine:
    """Two compacted partitions with three closed segments each, full of one key; cleanings are held back."""
    machine = Machine({"log.cleaner.threads": "1", "log.segment.bytes": "200"})
    client = machine.client()
    create(client, "t", partitions=2, cleanup_policy="compact")
    for _ in range(4):
        produce(client, "t", batch("x" * 90), batch("y" * 90))
    machine.hold(CleanLog)
    machine.pass_time(15_000)
    return machine


def next_cleaning(machine: Machine) -> CleanLog:
    effect = machine.held.pop()
    assert isinstance(effect, CleanLog)
    return effect


def test_what_is_dirty_is_owed_until_it_has_been_cleaned(caplog: pytest.LogCaptureFixture) -> None:
    machine = dirty()
    before = status(machine.broker, machine.now_ms).compaction
    assert before.running == ("t-0",)
    assert before.debt.keys() == {T0, T1}
    assert before.debt[T0] == Debt(before.dirty_bytes // 2, 1.0, True)
    assert before.progress.cleanings == 0
    effect = next_cleaning(machine)
    with caplog.at_level(logging.INFO):
        machine.broker.on_cleaned(effect.log, clean(machine.disk, effect.task), machine.now_ms)
        machine.carry_out()
    assert "compacted t-0 to offset 3: " in caplog.text
    assert "are left, 0 cannot be compacted" in caplog.text
    after = status(machine.broker, machine.now_ms).compaction
    assert after.progress.cleanings == 1
    assert not after.debt[T0].is_due
    assert after.debt[T1].is_due
    assert (after.running, after.uncleanable, after.last_failure) == ((), {}, None)


@pytest.mark.parametrize(("damaged", "when"), [(True, "not before the next start"), (False, "in 150000 ms")])
def test_a_log_that_cannot_be_cleaned_is_remembered_and_said_and_the_next_one_has_its_turn(
    damaged: bool, when: str, caplog: pytest.LogCaptureFixture
) -> None:
    machine = dirty()
    failed = CleanFailed(reason="no valid batch at 17", damaged=damaged)
    machine.broker.on_cleaned(next_cleaning(machine).log, failed, machine.now_ms)
    assert f"t-0 could not be compacted: no valid batch at 17; it is tried again {when}" in caplog.text
    found = status(machine.broker, machine.now_ms).compaction
    assert found.uncleanable[T0].reason == "no valid batch at 17"
    assert found.last_failure == (T0, "no valid batch at 17")
    assert found.progress.failures == 1
    assert found.debt[T0].is_due, "it is still owed"
    machine.pass_time(15_000)
    assert next_cleaning(machine).task.name == "t-1"


def test_directories_and_moves_are_part_of_the_status() -> None:
    machine = Machine({"log.dirs": "/a,/b"})
    create(machine.client(), "t", partitions=2)
    machine.broker.store.moves.begin(T0, "/b")
    assert status(machine.broker, machine.now_ms).moving == {T0: ("/b", 0)}
    machine.broker.on_directory_failed("/b", "it burns", machine.now_ms)
    found = status(machine.broker, machine.now_ms)
    assert (found.offline, found.lost, found.moving) == ({"/b": "it burns"}, (T1,), {})
