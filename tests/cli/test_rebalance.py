"""`ottla cluster rebalance`: the loop on a cluster that is only a dict, and the command on a real broker."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from tests.cli.commands import Run
from tests.kafka_clients.harness import wait_for

from ottla import Broker, Cluster
from ottla.cli.cluster import rebalance
from ottla.cli.cluster.local_cluster import LocalCluster, Process
from ottla.cli.cluster.moves import Rebalancing, Targets, led_by_others, plan
from ottla.controller.balance import Move, Partition, summary


@dataclass
class DictMoving:
    """A cluster in which a move takes `slowness` looks."""

    present: Targets
    slowness: int = 2
    under_way: dict[Partition, int] = field(default_factory=dict)
    targets: Targets = field(default_factory=dict)
    most: int = 0
    refusing: set[Partition] = field(default_factory=set)
    unready: int = 0

    def leaders(self) -> dict[Partition, int]:
        return {id: replicas[0] for id, replicas in self.present.items()}

    def assignment(self) -> Targets:
        return dict(self.present)

    def moving(self) -> Targets:
        self.most = max(self.most, len(self.under_way))
        for id in list(self.under_way):
            self.under_way[id] -= 1
            if self.under_way[id] <= 0:
                del self.under_way[id]
                self.present[id] = self.targets.pop(id)
        return dict(self.targets)

    def begin(self, moves: Iterable[Move]) -> dict[Partition, str]:
        refused = {}
        for one in moves:
            id = (one.topic, one.partition)
            if id in self.refusing:
                refused[id] = "no"
            else:
                self.under_way[id], self.targets[id] = self.slowness, one.after
        return refused

    def prefer(self, partitions: Iterable[Partition]) -> list[Partition]:
        self.unready -= 1
        return list(partitions) if self.unready >= 0 else []


def cluster(partitions: int = 12) -> DictMoving:
    return DictMoving({("t", p): tuple((p + i) % 3 + 1 for i in range(3)) for p in range(partitions)})


def work(moving: DictMoving, at_once: int = 3) -> tuple[Rebalancing, list[int]]:
    done: list[int] = []
    return Rebalancing(moving, at_once, lambda: None, done.append), done


def test_moves_are_carried_out_a_few_at_a_time_until_all_are_done() -> None:
    moving, racks = cluster(), dict.fromkeys((1, 2, 3, 4))
    _, _, moves = plan(moving, racks)
    loop, done = work(moving)
    assert loop.run(moves) == {}
    assert moving.most <= 3
    assert done == sorted(done)
    assert done[-1] == len(moves)
    assert {count for count, _ in summary(moving.present.values(), racks).values()} == {9}
    assert plan(moving, racks)[2] == [], "a second run has nothing to do"


def test_an_interrupted_run_is_taken_up_where_it_was() -> None:
    moving, racks = cluster(), dict.fromkeys((1, 2, 3, 4))
    _, _, moves = plan(moving, racks)
    moving.begin(moves[:4])
    ongoing, _, rest = plan(moving, racks)
    assert not [one for one in rest if (one.topic, one.partition) in ongoing and one.added]
    loop, done = work(moving)
    assert loop.run(rest, ongoing) == {}
    assert done[-1] == len(rest) + len(ongoing)
    assert plan(moving, racks)[2] == []


def test_a_refused_move_is_told_and_the_others_go_on() -> None:
    moving, racks = cluster(), dict.fromkeys((1, 2, 3, 4))
    _, _, moves = plan(moving, racks)
    moving.refusing = {(moves[0].topic, moves[0].partition)}
    loop, _ = work(moving)
    assert loop.run(moves) == {(moves[0].topic, moves[0].partition): "no"}
    assert not moving.targets


def test_leadership_is_asked_for_again_until_it_is_given() -> None:
    moving = cluster()
    asked = [("t", 0)]
    loop, _ = work(moving)
    moving.unready = 2
    assert loop.prefer(asked, 5) == []
    moving.unready = 9
    assert loop.prefer(asked, 3) == asked
    assert loop.prefer([], 3) == []


def test_a_broker_on_its_own_is_in_balance(ottla_broker: Broker, run: Run) -> None:
    ottla_broker.create_topic("rebalanced", 3)
    shown = run("cluster", "rebalance", "--bootstrap", ottla_broker.bootstrap_servers)
    assert "in balance" in shown.err
    assert shown.out.splitlines()[0].split()[:2] == ["BROKER", "RACK"]


def test_a_broker_without_partitions_gets_its_share_while_records_stay(run: Run) -> None:
    with Cluster(brokers=4) as cluster:
        bootstrap = cluster.bootstrap_servers
        client = AdminClient({"bootstrap.servers": bootstrap})
        spread = [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 2, 3]]
        client.create_topics([NewTopic("t", 4, replica_assignment=spread)])["t"].result(20)
        producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
        for number in range(400):
            producer.produce("t", str(number))
        assert producer.flush(20) == 0
        plan_only = ("cluster", "rebalance", "--dry-run", "-b", bootstrap)
        planned = run(*plan_only)
        assert "3 replicas to copy" in planned.err, planned
        done = run("cluster", "rebalance", "--throttle", "50000000", "--at-once", "2", "-b", bootstrap)
        assert (done.code, done.err.splitlines()[-1]) == (0, "moved 3 partitions"), done

        def described() -> Any:
            (topic,) = json.loads(run("topics", "describe", "t", "--json", "-b", bootstrap).out)
            return topic

        def is_spread() -> bool:  # not every broker knows at once
            found = described()["partitions"]
            in_sync = all(sorted(one["isr"]) == sorted(one["replicas"]) for one in found)
            return in_sync and sorted(one["leader"] for one in found) == [1, 2, 3, 4]

        wait_for(is_spread)
        topic = described()
        assert sum(one["end"] for one in topic["partitions"]) == 400
        assert topic["configs"] == {}, "the throttle is gone"
        wait_for(lambda: "leaders are in balance" in run(*plan_only).err)


RATE, SLOWED = rebalance.RATES[0], rebalance.THROTTLED[0]


def test_a_throttle_that_was_there_before_is_there_afterwards(ottla: Run, ottla_broker: Broker) -> None:
    ottla_broker.create_topic("slowed")
    own = (("--topic", "slowed", SLOWED, "0:1"), ("--broker", "1", RATE, "7000000"))
    for kind, name, key, value in own:
        assert ottla("configs", "set", kind, name, f"{key}={value}").code == 0
    try:
        with rebalance._throttled(ottla_broker.bootstrap_servers, 1000, [1], ["slowed"]):
            for kind, name, key, _value in own:
                described = ottla("configs", "describe", kind, name).out.split()
                assert described[described.index(key) + 1] in {"1000", "*"}
        for kind, name, key, value in own:
            described = ottla("configs", "describe", kind, name).out.split()
            assert described[described.index(key) + 1] == value
        assert rebalance.THROTTLED[1] not in ottla("configs", "describe", "--topic", "slowed").out
    finally:
        ottla("configs", "delete", "--broker", "1", RATE)


def test_the_folder_of_a_cluster_says_where_it_is(run: Run, ottla_broker: Broker, tmp_path: Path) -> None:
    port = int(ottla_broker.bootstrap_servers.rpartition(":")[2])
    LocalCluster(tmp_path, "zk:2181", brokers=[Process("broker-1", 1, port)]).save()
    found = run("cluster", "rebalance", "--dry-run", "--dir", str(tmp_path))
    assert (found.code, "in balance" in found.err) == (0, True), found.err
    none = run("cluster", "rebalance", "--dir", str(tmp_path / "none"))
    assert (none.code, "there is no cluster in" in none.err) == (1, True)


def test_leaders_count_where_they_are_and_not_where_they_should_be() -> None:
    present: Targets = {("t", 0): (1, 2), ("t", 1): (2, 1), ("t", 2): (9, 1)}
    leaders = {("t", 0): 1, ("t", 1): 1, ("t", 2): 1}
    assert led_by_others(leaders, present, dict.fromkeys((1, 2))) == [("t", 1)], "9 is away"


def test_where_nothing_has_to_move_the_first_replicas_lead_again(run: Run) -> None:
    with Cluster(brokers=2, config={"auto.leader.rebalance.enable": "false"}) as cluster:
        bootstrap = cluster.bootstrap_servers
        client = AdminClient({"bootstrap.servers": bootstrap})
        client.create_topics([NewTopic("t", 2, replica_assignment=[[1, 2], [2, 1]])])["t"].result(20)
        cluster.stop(2)
        plan_only = ("cluster", "rebalance", "--dry-run", "-b", bootstrap)
        wait_for(lambda: run(*plan_only).err == "broker 2 is not there\n")
        cluster.start(2)
        well = "under-replicated partitions: 0 of 2"
        wait_for(lambda: well in run("cluster", "status", "-b", bootstrap).out)
        planned = run(*plan_only)
        assert "1 partition led by another" in planned.err, planned
        rows = [line.split() for line in planned.out.splitlines()[1:]]
        assert [row[-3:] for row in rows] == [["2", "2", "1"], ["0", "2", "1"]], planned.out
        done = run("cluster", "rebalance", "-b", bootstrap)
        assert done.err.splitlines()[-1] == "elected the first replica of 1 partition", done
        wait_for(lambda: "leaders are in balance" in run(*plan_only).err)
