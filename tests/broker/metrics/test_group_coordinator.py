"""Metrics of the coordinator of groups, under Kafka's names."""

from typing import Any

from tests.api.groups import broker, stable
from tests.api.harness import Machine
from tests.support.groups import G, committing, consuming, joining
from tests.support.metrics import series_of

from ottla.base.metrics import Histogram, metrics_of
from ottla.broker.metrics.group_coordinator import GroupCoordinatorMetrics

MANAGER, METRICS = "kafka_coordinator_group_groupmetadatamanager_", "kafka_server_group_coordinator_metrics_"


def read(machine: Machine) -> dict[str, dict[tuple[str, ...], Any]]:
    return series_of(GroupCoordinatorMetrics(machine.broker.coordinators), machine.now_ms)


def single(machine: Machine, prefix: str) -> dict[str, int]:
    """Those without labels that are not 0, by the end of their names."""
    return {
        name.removeprefix(prefix): samples[()]
        for name, samples in read(machine).items()
        if name.startswith(prefix) and samples.get((), 0)
    }


def test_every_metric_is_there_and_zero_where_there_has_never_been_a_group() -> None:
    series = read(Machine())
    assert series.keys() == {metric.name for metric in metrics_of(GroupCoordinatorMetrics)}
    values = [value for samples in series.values() for value in samples.values()]
    assert all(value in (0, Histogram()) for value in values)


def test_groups_are_counted_by_protocol_and_by_state() -> None:
    machine, client, _ = broker()
    stable(machine, client)
    client.send(committing(1, partitions=(0, 1), group="tool"), 9)
    machine.client().ask(joining(client.send(joining(group="begins")).member_id, group="begins"))
    client.send(consuming("a", 0, group="modern"))
    assert single(machine, MANAGER) == {
        "numgroups": 3, "numoffsets": 2, "numgroupsstable": 1, "numgroupsempty": 1,
        "numgroupspreparingrebalance": 1,
    }  # fmt: skip
    series = read(machine)
    assert series[METRICS + "group_count"] == {("classic",): 3, ("consumer",): 1}
    by_state = {"Empty": 0, "Assigning": 0, "Reconciling": 0, "Stable": 1, "Dead": 0}
    assert series[METRICS + "consumer_group_count"] == {(state,): by_state[state] for state in by_state}


def test_what_groups_go_through_is_counted_and_begins_at_zero_after_a_restart() -> None:
    machine, client, _ = broker()
    member = stable(machine, client)
    client.send(committing(1, partitions=(0, 1), member=member, epoch=1), 9)
    client.send(consuming("a", 0, group="modern"))
    assert single(machine, METRICS) == {
        "offset_commit_count": 2, "group_completed_rebalance_count": 1, "consumer_group_rebalance_count": 1,
    }  # fmt: skip
    machine.restart()
    assert single(machine, METRICS) == {}
    assert single(machine, MANAGER) == {"numgroups": 1, "numoffsets": 2, "numgroupsstable": 1}


def test_partitions_are_loading_until_all_of_them_was_read() -> None:
    machine, client, _ = broker(offsets_topic_num_partitions="1")
    for number in range(1_200):
        client.send(committing(number, group=f"{G}-{number}"), 9)
    machine.crash()
    series = read(machine)
    assert series[METRICS + "num_partitions"] == {("loading",): 1, ("active",): 0, ("failed",): 0}
    left = series["ottla_group_coordinator_load_offsets"][()]
    assert 600 <= left <= 750, "the first slice has read about 500"
    for _ in range(10):
        machine.pass_time(10)
    series = read(machine)
    assert series[METRICS + "num_partitions"] == {("loading",): 0, ("active",): 1, ("failed",): 0}
    assert series["ottla_group_coordinator_load_offsets"] == {(): 0}
    times = series["ottla_group_coordinator_load_seconds"][()]
    assert sum(times.counts) == 1
    assert 10_000 <= times.total_us <= 100_000
