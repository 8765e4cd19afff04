"""Metrics of single groups, under the names of kafka_exporter."""

from collections.abc import Iterable

from tests.api.asking import batch, create, lead, produce
from tests.api.groups import broker, lead_offsets, stable
from tests.api.harness import Machine
from tests.support.groups import G, committing, consuming
from tests.support.metrics import series_of

from ottla.base.metrics import metrics_of
from ottla.broker.effects import Send
from ottla.broker.metrics.groups import GroupMetrics
from ottla.controller import znodes
from ottla.controller.keeper import Put
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest

OFFSET, LAG = "kafka_consumergroup_current_offset", "kafka_consumergroup_lag"
OFFSET_SUM, LAG_SUM = "kafka_consumergroup_current_offset_sum", "kafka_consumergroup_lag_sum"
MEMBERS, LEFT_OUT = "kafka_consumergroup_members", "ottla_metrics_groups_left_out"


def read(machine: Machine) -> dict[str, dict[tuple[str, ...], object]]:
    the_broker = machine.broker
    source = GroupMetrics(the_broker.coordinators, the_broker.settings, the_broker.group_lag)
    return series_of(source, machine.now_ms)


def labels(samples: Iterable[tuple[str, ...]]) -> list[str]:
    return sorted("/".join(of_sample) for of_sample in samples)


def test_every_metric_is_there_where_there_has_never_been_a_group() -> None:
    series = read(Machine())
    assert series.keys() == {metric.name for metric in metrics_of(GroupMetrics)}
    assert series.pop(LEFT_OUT) == {(): 0}
    assert not any(series.values())


def test_a_group_is_as_far_behind_as_there_are_records_that_it_has_not_committed() -> None:
    machine, client, _ = broker()
    produce(client, "t", batch("a", "b", "c"))
    client.send(committing(1, partitions=(0, 1)), 9)
    series = read(machine)
    assert series[OFFSET] == {(G, "t", "0"): 1, (G, "t", "1"): 1}
    assert series[LAG] == {(G, "t", "0"): 2, (G, "t", "1"): 0}, "and not below 0"
    assert series[OFFSET_SUM] == {(G, "t"): 2}
    assert series[LAG_SUM] == {(G, "t"): 2}
    assert series[MEMBERS] == {(G,): 0}


def test_a_partition_without_a_committed_offset_has_no_lag() -> None:
    machine, client, _ = broker()
    produce(client, "t", batch("a", "b", "c"))
    client.send(committing(3), 9)
    series = read(machine)
    assert (series[LAG], series[LAG_SUM]) == ({(G, "t", "0"): 0}, {(G, "t"): 0})


def test_groups_of_both_protocols_have_members() -> None:
    machine, client, _ = broker()
    stable(machine, client)
    for member in ("a", "b"):
        client.send(consuming(member, 0, group="moderns"))
    assert read(machine)[MEMBERS] == {(G,): 1, ("moderns",): 2}


def test_a_lag_is_unknown_while_the_leader_of_the_partition_has_not_been_heard() -> None:
    machine, client, _ = broker()
    create(client, "u", partitions=1)
    produce(client, "t", batch("a", "b", "c"))
    client.send(committing(1, partitions=(0, 1)), 9)
    client.send(committing(1, topic="u"), 9)
    machine.give_up_the_seat()
    lead(machine, "u", leader=-1, epoch=1)
    series = read(machine)
    assert series[LAG] == {(G, "t", "0"): 2, (G, "t", "1"): 0, (G, "u", "0"): -1}
    assert series[LAG_SUM] == {(G, "t"): 2, (G, "u"): -1}
    assert series[OFFSET_SUM] == {(G, "t"): 2, (G, "u"): 1}
    machine.pass_time(1)
    assert not [effect for effect in machine.held if isinstance(effect, Send)]


def test_the_sum_of_lags_is_that_of_the_partitions_whose_ends_are_known() -> None:
    machine, client, _ = broker()
    produce(client, "t", batch("a", "b", "c"))
    client.send(committing(1, partitions=(0, 1)), 9)
    machine.give_up_the_seat()
    states = {0: (1, 0, (1,)), 1: (-1, 1, (1,))}
    machine.write(Put(znodes.state_path("t"), znodes.state_node(1, states)))
    series = read(machine)
    assert series[LAG] == {(G, "t", "0"): 2, (G, "t", "1"): -1}
    assert series[LAG_SUM] == {(G, "t"): 2}


def test_series_go_with_the_topic_and_with_the_group() -> None:
    machine, client, _ = broker()
    create(client, "u", partitions=1)
    client.send(committing(1), 9)
    client.send(committing(1, topic="u"), 9)
    client.send(committing(1, group="others"), 9)
    client.send(DeleteTopicsRequest(topic_names=["u"], timeout_ms=1_000), 3)
    client.send(DeleteGroupsRequest(groups_names=["others"]))
    assert read(machine)[OFFSET] == {(G, "t", "0"): 1}


def test_a_coordinator_exports_its_own_groups_and_no_others() -> None:
    machine, client, _ = broker()
    client.send(committing(1), 9)
    lead_offsets(machine, leader=2, epoch=1, isr=(2,))
    series = read(machine)
    assert not series[OFFSET]
    assert not series[MEMBERS]


def test_groups_beyond_the_limit_have_no_series_and_are_counted() -> None:
    machine, client, _ = broker(ottla_metrics_groups_max="2")
    for number in range(5):
        client.send(committing(1, group=f"group-{number}"), 9)
    before = read(machine)
    assert before[LEFT_OUT] == {(): 3}
    assert len(before[OFFSET]) == len(before[MEMBERS]) == 2
    client.send(committing(1, group="a-new-one"), 9)
    assert labels(read(machine)[MEMBERS]) == labels(before[MEMBERS]), "those that had series keep them"


def test_single_partitions_have_series_only_where_they_are_wanted() -> None:
    machine, client, _ = broker(ottla_metrics_partitions_enable="false")
    produce(client, "t", batch("a", "b", "c"))
    client.send(committing(1), 9)
    series = read(machine)
    assert (series[OFFSET], series[LAG]) == ({}, {})
    assert (series[OFFSET_SUM], series[LAG_SUM]) == ({(G, "t"): 1}, {(G, "t"): 2})


def test_topics_beyond_the_limit_are_summed_up() -> None:
    machine, client, _ = broker(ottla_metrics_topics_max="1")
    for topic in ("u", "v"):
        create(client, topic, partitions=1)
        produce(client, topic, batch("a", "b"))
        client.send(committing(1, topic=topic), 9)
    client.send(committing(0), 9)
    series = read(machine)
    assert series[OFFSET] == {(G, "t", "0"): 0}
    assert series[OFFSET_SUM] == {(G, "t"): 0, (G, "(others)"): 2}
    assert series[LAG_SUM] == {(G, "t"): 0, (G, "(others)"): 2}
