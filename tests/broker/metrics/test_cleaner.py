"""What is shown of compaction is what it did."""

from tests.api.asking import batch, create, produce
from tests.api.harness import Machine
from tests.support.metrics import metrics_of

from ottla.broker.effects import CleanLog
from ottla.log.compaction.rewrite import clean
from ottla.log.compaction.task import CleanFailed, CleanOutcome

SIZE = len(batch("0"))


def dirty() -> tuple[Machine, CleanLog]:
    """A compacted topic of two closed segments with two records each, all of one key, and their cleaning."""
    machine = Machine()
    client = machine.client()
    create(client, "t", cleanup_policy="compact", segment_bytes=str(2 * SIZE), flush_messages="1")
    for number in range(5):
        produce(client, "t", batch(str(number)))
    machine.hold(CleanLog)
    machine.pass_time(1_000)
    (effect,) = machine.held
    assert isinstance(effect, CleanLog)
    return machine, effect


def finish(machine: Machine, effect: CleanLog, outcome: CleanOutcome, after_ms: int) -> dict[str, float]:
    machine.now_ms += after_ms
    machine.broker.storage.on_cleaned(effect.log, outcome, machine.now_ms)
    machine.carry_out()
    return metrics_of(machine.broker, machine.now_ms)


def test_a_compaction_shows_what_was_read_and_what_was_kept() -> None:
    machine, effect = dirty()
    samples = metrics_of(machine.broker, machine.now_ms + 3_000)
    assert samples["kafka_log_logcleanermanager_max_dirty_percent"] == 100
    assert samples["kafka_log_logcleanermanager_time_since_last_run_ms"] == 3_000
    assert samples['ottla_log_cleanings_total{result="done"}'] == 0
    samples = finish(machine, effect, clean(machine.disk, effect.task), after_ms=2_500)
    assert samples['ottla_log_cleanings_total{result="done"}'] == 1
    assert samples["ottla_log_cleaner_read_bytes_total"] == 4 * SIZE
    assert samples["ottla_log_cleaner_written_bytes_total"] == SIZE
    assert samples["ottla_log_cleaner_read_records_total"] == 4
    assert samples["ottla_log_cleaner_written_records_total"] == 1
    assert samples["kafka_log_logcleaner_cleaner_recopy_percent"] == 25
    assert samples["kafka_log_logcleaner_max_clean_time_secs"] == 2.5
    machine.pass_time(15_000)
    assert metrics_of(machine.broker)["kafka_log_logcleanermanager_max_dirty_percent"] == 0


def test_a_log_that_cannot_be_compacted_is_counted_with_its_bytes() -> None:
    machine, effect = dirty()
    samples = finish(machine, effect, CleanFailed(reason="no room"), after_ms=10)
    assert samples['ottla_log_cleanings_total{result="failed"}'] == 1
    of = '{logDirectory="/data"}'
    assert samples[f"kafka_log_logcleanermanager_uncleanable_partitions_count{of}"] == 1
    assert samples[f"kafka_log_logcleanermanager_uncleanable_bytes{of}"] == 4 * SIZE


def test_a_log_that_has_waited_too_long_for_its_compaction_says_how_long() -> None:
    machine = Machine({"log.cleaner.enable": "true"})
    client = machine.client()
    create(
        client, "t", cleanup_policy="compact", segment_bytes=str(2 * SIZE), flush_messages="1",
        max_compaction_lag_ms="60000", min_cleanable_dirty_ratio="1",
    )  # fmt: skip
    for number in range(5):
        produce(client, "t", batch(str(number)))
    machine.hold(CleanLog)
    machine.pass_time(65_000)
    assert metrics_of(machine.broker)["kafka_log_logcleaner_max_compaction_delay_secs"] == 5
