"""Metrics of replication, of the controller and of a broker's state say what is so."""

import logging
import re
from collections.abc import Mapping

import pytest
from tests.api.asking import batch, to
from tests.broker.controllers import Controllers
from tests.broker.test_controller_writes import proposal
from tests.replication.pump import Cluster
from tests.support.metrics import metrics_of

from ottla.base.ids import TopicPartition
from ottla.broker.broker import Broker
from ottla.broker.effects import Sign
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)

REPLICA_MANAGER = "kafka_server_replicamanager_"
CONTROLLER = "kafka_controller_kafkacontroller_"
FETCHERS = "kafka_server_replicafetchermanager_"


def check(broker: Broker, prefix: str, expected: Mapping[str, float]) -> None:
    said = metrics_of(broker)
    assert {name: said[prefix + name] for name in expected} == expected


def test_how_well_partitions_are_replicated() -> None:
    cluster = Controllers(3)
    cluster.create("t", (3, 2, 1), min_insync_replicas=2)
    cluster.create("u", (2, 3))
    check(
        cluster.brokers[3],
        REPLICA_MANAGER,
        {"leadercount": 1, "partitioncount": 2, "underreplicatedpartitions": 0, "atminisrpartitioncount": 0},
    )
    cluster.ask(1, proposal(cluster, 3, 3, 2))
    at_min = {"underreplicatedpartitions": 1, "atminisrpartitioncount": 1, "underminisrpartitioncount": 0}
    check(cluster.brokers[3], REPLICA_MANAGER, at_min | {"isrshrinks_total": 1, "isrexpands_total": 0})
    cluster.ask(1, proposal(cluster, 3, 3))
    below = {"underreplicatedpartitions": 1, "atminisrpartitioncount": 0, "underminisrpartitioncount": 1}
    check(cluster.brokers[3], REPLICA_MANAGER, below | {"isrshrinks_total": 2})
    said = metrics_of(cluster.brokers[3])
    assert said['kafka_cluster_partition_underreplicated{topic="t",partition="0"}'] == 1
    assert said['kafka_cluster_partition_underminisr{topic="t",partition="0"}'] == 1
    assert not [name for name in metrics_of(cluster.brokers[2]) if name.startswith("kafka_cluster_partition")]
    cluster.ask(1, proposal(cluster, 3, 3, 2, 1))
    healed = {"underreplicatedpartitions": 0, "underminisrpartitioncount": 0, "isrexpands_total": 1}
    check(cluster.brokers[3], REPLICA_MANAGER, healed)


def test_metrics_of_single_partitions_can_be_switched_off() -> None:
    cluster = Controllers(2, ottla_metrics_partitions_enable="false")
    cluster.create("t", (2, 1))
    cluster.ask(1, proposal(cluster, 2, 2))
    said = metrics_of(cluster.brokers[2])
    assert said[REPLICA_MANAGER + "underreplicatedpartitions"] == 1
    assert ("kafka_cluster_partition_underreplicated", "t", "0") not in said


def test_partitions_that_move_count_on_their_leader() -> None:
    cluster = Controllers(3)
    cluster.create("t", (2, 3), (3, 2))
    wanted = ReassignablePartition(partition_index=0, replicas=[1, 3])
    topic = ReassignableTopic(name="t", partitions=[wanted])
    cluster.ask(1, AlterPartitionReassignmentsRequest(topics=[topic], timeout_ms=1_000))
    assert [
        metrics_of(cluster.brokers[id])[REPLICA_MANAGER + "reassigningpartitions"] for id in (1, 2, 3)
    ] == [
        0,
        1,
        0,
    ]


def test_replicas_in_a_failed_directory_are_offline() -> None:
    cluster = Controllers(2)
    cluster.create("t", (2, 1), (1, 2))
    broker = cluster.brokers[2]
    broker.store.lost[TopicPartition("t", 0)] = "/elsewhere"
    check(broker, REPLICA_MANAGER, {"offlinereplicacount": 1})


def test_the_controller_counts_the_cluster_and_the_others_count_nothing() -> None:
    cluster = Controllers(3)
    cluster.create("t", (3, 2), (2, 3))
    cluster.create("u", (3,))
    all_there = {
        "globaltopiccount": 2,
        "globalpartitioncount": 3,
        "activebrokercount": 3,
        "fencedbrokercount": 0,
    }
    healthy = {"activecontrollercount": 1, "offlinepartitionscount": 0, "preferredreplicaimbalancecount": 0}
    check(cluster.brokers[1], CONTROLLER, all_there | healthy)
    check(cluster.brokers[2], CONTROLLER, dict.fromkeys(all_there | healthy, 0))
    cluster.die(3)
    troubled = {"activebrokercount": 2, "offlinepartitionscount": 1, "preferredreplicaimbalancecount": 2}
    check(cluster.brokers[1], CONTROLLER, troubled)
    said = metrics_of(cluster.brokers[1])
    assert said['ottla_controller_elections_total{reason="broker_gone"}'] == 1
    assert said["kafka_controller_controllerstats_leaderelectionrateandtimems_count"] == 1
    assert said["kafka_controller_controllerstats_uncleanleaderelections_total"] == 0
    assert said["ottla_controller_election_seconds_count"] == 1
    epoch = said["ottla_controller_epoch"]
    cluster.die(1)
    check(cluster.brokers[2], CONTROLLER, {"activecontrollercount": 1, "newactivecontrollerscount": 1})
    assert metrics_of(cluster.brokers[2])["ottla_controller_epoch"] == epoch + 1


def test_a_broker_that_refuses_connections_counts_as_fenced() -> None:
    cluster = Controllers(3)
    epoch = cluster.brokers[1].image.brokers[3].epoch
    for _ in range(2):
        cluster.now_ms += 300
        cluster.brokers[1].on_probed(3, epoch, Sign.REFUSED, cluster.now_ms)
    check(cluster.brokers[1], CONTROLLER, {"activebrokercount": 2, "fencedbrokercount": 1})


def test_what_followers_ask_and_are_answered(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    cluster = Cluster((1, 2), {"replica.lag.time.max.ms": "1000"})
    cluster.topic("t", (1, 2), (1, 2))
    cluster.run()
    follower = cluster.nodes[2].broker
    healthy = metrics_of(follower)
    assert healthy[FETCHERS + 'maxlag{clientId="Replica"}'] == 0
    assert healthy[FETCHERS + 'failedpartitionscount{clientId="Replica"}'] == 0
    assert healthy["ottla_replica_fetch_requests_total"] > 0
    assert not [name for name in healthy if name.startswith("ottla_replica_fetch_errors_total")]
    cluster.cut(1, 2)
    cluster.client(1).send(to("t", batch(), batch(), acks=1), 12)
    cluster.pass_time(3_000)
    troubled = metrics_of(follower)
    assert troubled['ottla_replica_fetch_errors_total{error="NETWORK_EXCEPTION"}'] > 0
    assert troubled["ottla_replica_fetch_requests_total"] > healthy["ottla_replica_fetch_requests_total"]
    check(cluster.nodes[1].broker, REPLICA_MANAGER, {"isrshrinks_total": 2, "underreplicatedpartitions": 2})
    late = [line for line in caplog.messages if "shall leave the ISR" in line]
    pattern = (
        r"t-0, t-1: broker 2 is late by (\d+) ms \(replica.lag.time.max.ms is 1000\) and shall leave the ISR"
    )
    assert len(late) == 1
    said = re.fullmatch(pattern, late[0])
    assert said is not None
    assert 1_000 < int(said[1]) <= 3_000


def test_a_broker_that_is_opened_runs() -> None:
    cluster = Controllers(1)
    broker = cluster.brokers[1]
    assert metrics_of(broker)["kafka_server_kafkaserver_brokerstate"] == 3
    broker.readiness.is_stopping = True
    assert metrics_of(broker)["kafka_server_kafkaserver_brokerstate"] == 7
    broker.readiness.is_open = broker.readiness.is_stopping = False
    assert metrics_of(broker)["kafka_server_kafkaserver_brokerstate"] == 1


pytestmark = pytest.mark.timeout(120)
