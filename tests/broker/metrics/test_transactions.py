"""Metrics of transactions: those that are coordinated here, and those in partitions."""

from tests.api.harness import Machine
from tests.api.transactions import NONE, add, end, end_request, init, started
from tests.support.metrics import metrics_of
from tests.support.transactions import open_transaction

from ottla.broker.effects import SyncLog
from ottla.broker.metrics.transactions import LATE_MS

LATE = "kafka_server_replicamanager_partitionswithlatetransactionscount"
PRODUCERS = "kafka_server_replicamanager_produceridcount"


def numbers(machine: Machine) -> tuple[float, float, float]:
    """Ids, open transactions, and those that are being ended."""
    said = metrics_of(machine.broker)
    return (
        said["ottla_transactional_ids"],
        said["ottla_transactions_open"],
        said["ottla_transactions_ending"],
    )


def ended(machine: Machine) -> tuple[float, float]:
    said = metrics_of(machine.broker)
    committed, aborted = (
        f'ottla_transactions_ended_total{{outcome="{outcome}"}}' for outcome in ("commit", "abort")
    )
    return said[committed], said[aborted]


def test_a_broker_that_never_saw_a_transaction_has_none() -> None:
    machine = Machine({})
    assert numbers(machine) == (0, 0, 0)
    assert ended(machine) == (0, 0)
    assert metrics_of(machine.broker)["ottla_transaction_markers_outstanding"] == 0


def test_transactions_are_counted_from_their_beginning_to_their_end() -> None:
    machine, client = started()
    producer = init(client)
    assert numbers(machine) == (1, 0, 0)
    add(client, producer, 0, 1)
    assert numbers(machine) == (1, 1, 0)
    producer = end(client, producer)
    machine.pass_time(1_000)
    assert numbers(machine) == (1, 0, 0)
    assert ended(machine) == (1, 0)
    add(client, producer, 0)
    end(client, producer, committed=False)
    machine.pass_time(1_000)
    assert ended(machine) == (1, 1)


def test_markers_that_wait_for_the_disk_are_outstanding() -> None:
    machine, client = started(log_flush_interval_messages="1")
    producer = init(client)
    add(client, producer, 0, 1)
    machine.hold(SyncLog)
    pending = client.ask(end_request(producer), 5)
    machine.release(still_hold=True)
    assert pending.answer.error_code == NONE
    assert numbers(machine) == (1, 0, 1)
    assert metrics_of(machine.broker)["ottla_transaction_markers_outstanding"] == 2
    machine.release()
    machine.pass_time(1_000)
    assert metrics_of(machine.broker)["ottla_transaction_markers_outstanding"] == 0
    assert ended(machine) == (1, 0)


def test_a_transaction_that_nobody_ends_is_late_in_its_partition() -> None:
    machine, _client = started(transaction_max_timeout_ms="60000")
    broker, now_ms = machine.broker, machine.now_ms
    open_transaction(broker, "t", now_ms, producer_id=7)
    said = metrics_of(broker, now_ms)
    assert (said[LATE], said[PRODUCERS]) == (0, 1)
    partition = next(partition for partition in broker.partitions.values() if partition.log.producers.by_id)
    partition.log.producers.by_id[7].last_timestamp = broker.storage.wall_ms(now_ms)
    assert metrics_of(broker, now_ms + 60_000 + LATE_MS)[LATE] == 0
    assert metrics_of(broker, now_ms + 60_000 + LATE_MS + 1)[LATE] == 1
