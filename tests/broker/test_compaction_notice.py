"""What the cleaner owes, what it did and what it cannot do is said."""

import logging

import pytest
from tests.api.asking import batch, create, produce
from tests.api.harness import Machine
from tests.log.cleaning_helpers import running

from ottla.base.ids import TopicPartition
from ottla.broker.effects import CleanLog
from ottla.log.compaction.policy import Dirt
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


def debt(machine: Machine) -> dict[TopicPartition, Dirt]:
    broker = machine.broker
    dirt = broker.store.cleaner.debt(
        broker.partitions.last_stable_offset, broker.storage.wall_ms(machine.now_ms)
    )
    return {log_dirt.log.topic_partition: log_dirt for log_dirt in dirt}


def next_cleaning(machine: Machine) -> CleanLog:
    effect = machine.held.pop()
    assert isinstance(effect, CleanLog)
    return effect


def test_what_is_dirty_is_owed_until_it_has_been_cleaned(caplog: pytest.LogCaptureFixture) -> None:
    machine = dirty()
    cleaner, before = machine.broker.store.cleaner, debt(machine)
    assert [task.name for task in running(cleaner)] == ["t-0"]
    assert before.keys() == {T0, T1}
    assert before[T0].dirty_bytes == before[T1].dirty_bytes > 0
    assert (before[T0].ratio, before[T0].is_due) == (1.0, True)
    assert cleaner.progress.cleanings == 0
    effect = next_cleaning(machine)
    with caplog.at_level(logging.INFO):
        machine.broker.storage.on_cleaned(effect.log, clean(machine.disk, effect.task), machine.now_ms)
        machine.carry_out()
    assert "compacted t-0 to offset 3: " in caplog.text
    assert "are left, 0 cannot be compacted" in caplog.text
    after = debt(machine)
    assert cleaner.progress.cleanings == 1
    assert not after[T0].is_due
    assert after[T1].is_due
    assert (running(cleaner), cleaner.uncleanable) == ([], {})


@pytest.mark.parametrize(("damaged", "when"), [(True, "not before the next start"), (False, "in 150000 ms")])
def test_a_log_that_cannot_be_cleaned_is_remembered_and_said_and_the_next_one_has_its_turn(
    damaged: bool, when: str, caplog: pytest.LogCaptureFixture
) -> None:
    machine = dirty()
    failed = CleanFailed(reason="no valid batch at 17", damaged=damaged)
    machine.broker.storage.on_cleaned(next_cleaning(machine).log, failed, machine.now_ms)
    assert f"t-0 could not be compacted: no valid batch at 17; it is tried again {when}" in caplog.text
    cleaner = machine.broker.store.cleaner
    assert cleaner.uncleanable[T0].reason == "no valid batch at 17"
    assert cleaner.progress.failures == 1
    assert debt(machine)[T0].is_due, "it is still owed"
    machine.pass_time(15_000)
    assert next_cleaning(machine).task.name == "t-1"
