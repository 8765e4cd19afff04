"""A broker is ready when it can answer for what it leads; what keeps it from that is named."""

import pytest
from tests.api.asking import begin_to_create, create
from tests.api.harness import Disk, Machine
from tests.api.test_group_loading import finish, loading
from tests.support.metrics import series_of

from ottla.base.ids import TopicPartition
from ottla.broker import log_queue
from ottla.broker.broker import Broker
from ottla.broker.leadership_proofs import DOUBT_MS
from ottla.broker.metrics.broker_state import BrokerStateMetrics
from ottla.broker.metrics.readiness import ReadinessMetrics
from ottla.broker.metrics.sources import sources_of
from ottla.broker.readiness import REASONS
from ottla.controller import znodes
from ottla.controller.keeper import ANY, Delete


def reasons(broker: Broker) -> list[str]:
    return [reason.name for reason in broker.readiness.reasons()]


def metrics(broker: Broker) -> dict[str, dict[tuple[str, ...], int]]:
    return series_of(ReadinessMetrics(broker.readiness, broker.coordinators))


def test_a_broker_that_serves_is_ready() -> None:
    machine = Machine()
    create(machine.client(), "t")
    assert reasons(machine.broker) == []
    assert metrics(machine.broker)["ottla_ready"] == {(): 1}
    assert metrics(machine.broker)["ottla_not_ready"] == {(name,): 0 for name in REASONS}


def test_a_broker_that_is_not_open_is_not_ready_and_nothing_else_of_it_is_read() -> None:
    machine = Machine()
    broker = Broker(Disk(), machine.random, dict(machine.properties))
    assert reasons(broker) == ["not-registered"]
    assert [type(source) for source in sources_of(broker)] == [ReadinessMetrics, BrokerStateMetrics]
    broker.store.progress.remaining["/data"] = 3
    broker.store.progress.on_opened("/data")
    (reason,) = broker.readiness.reasons()
    assert reason == ("recovering-logs", "1 of 3 logs are open.")
    assert metrics(broker)["kafka_log_logmanager_remaininglogstorecover"] == {("/data",): 2}
    assert metrics(broker)["ottla_ready"] == {(): 0}
    assert len(sources_of(machine.broker)) > 1


def test_a_broker_whose_session_is_over_is_not_ready_until_it_is_registered_again() -> None:
    machine = Machine()
    machine.write(Delete(f"{znodes.BROKERS}{machine.broker.id}", ANY))
    assert reasons(machine.broker) == ["not-registered"]


def test_a_broker_that_loads_its_groups_is_not_ready() -> None:
    machine, _ = loading()
    assert reasons(machine.broker) == ["loading-coordinators"]
    assert metrics(machine.broker)["ottla_coordinator_loading_partitions"] == {
        ("__consumer_offsets",): 1,
        ("__transaction_state",): 0,
    }
    finish(machine)
    assert reasons(machine.broker) == []


def test_a_broker_with_logs_to_make_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_queue, "PORTION_MAX", 3)
    machine = Machine()
    begin_to_create(machine.client(), "t", partitions=5)
    assert reasons(machine.broker) == ["opening-partitions"]
    while machine.broker.partitions.log_queue.todo:
        machine.pass_time(1)
    assert reasons(machine.broker) == []


def test_a_broker_in_doubt_whether_it_leads_is_not_ready_until_a_proof_comes() -> None:
    machine = Machine()
    create(machine.client(), "t")
    broker, topic_partition = machine.broker, TopicPartition("t", 0)
    broker.proofs.confirm = lambda _now_ms: None  # the keeper is away
    broker.proofs.ask_for(broker.partitions[topic_partition], machine.now_ms, machine.now_ms)
    machine.pass_time(DOUBT_MS - 1)
    assert reasons(broker) == []
    machine.pass_time(1)
    assert reasons(broker) == ["leadership-in-doubt"]
    broker.proofs.on_confirmed(machine.now_ms, machine.now_ms)
    assert reasons(broker) == []


def test_doubts_about_a_partition_that_others_lead_by_now_are_no_reason() -> None:
    machine = Machine()
    machine.broker.proofs.in_doubt.add(TopicPartition("gone", 0))
    assert reasons(machine.broker) == []


def test_a_broker_that_stops_is_not_ready() -> None:
    machine = Machine()
    machine.broker.readiness.is_stopping = True
    assert reasons(machine.broker) == ["stopping"]
