"""What brokers count of a failover agrees with what happened: shrinks, elections, expands; and what they say
of a ZooKeeper that is away.

Nothing is written meanwhile, so that no follower is ever late, and sessions are long: what changes, changes
because a broker was killed and came back.
"""

import re
import uuid
from collections.abc import Iterator, Mapping

import pytest
from confluent_kafka import ElectionType
from confluent_kafka import TopicPartition as KafkaPartition
from tests.cluster.real import START_S
from tests.cluster.watched import WatchedCluster
from tests.support.processes import running
from tests.support.waiting import wait_for

SESSION_S = 40
SETTINGS = {
    "zookeeper.session.timeout.ms": str(SESSION_S * 1000),
    "auto.leader.rebalance.enable": "false",
    "replica.lag.time.max.ms": "600000",
}
TICK_MS = 2_000  # of ZooKeeper, which grants sessions of twenty of them
SHRINKS = "kafka_server_replicamanager_isrshrinks_total"
EXPANDS = "kafka_server_replicamanager_isrexpands_total"
ELECTIONS = "ottla_controller_elections_total"
ELECTION_WRITES = "kafka_controller_controllerstats_leaderelectionrateandtimems_count"
UNCLEAN = "kafka_controller_controllerstats_uncleanleaderelections_total"
UNDER_REPLICATED = "kafka_server_replicamanager_underreplicatedpartitions"
LEADERS = "kafka_server_replicamanager_leadercount"
OFFLINE = "kafka_controller_kafkacontroller_offlinepartitionscount"
SESSIONS = "kafka_server_sessionexpirelistener_zookeeper"
CONTROLLERS = "kafka_controller_kafkacontroller_activecontrollercount"


class MeasuredCluster(WatchedCluster):
    def metrics(self) -> dict[str, float]:
        """The sum over all brokers that run; of a metric with a label, over its values too."""
        total: dict[str, float] = {}
        for broker in self.brokers.values():
            for sample, value in broker.metrics().items() if broker.is_running else ():
                for name in {sample, sample.partition("{")[0]}:
                    total[name] = total.get(name, 0) + value
        return total

    def partitions(self) -> dict[tuple[str, int], tuple[int, list[int], list[int]]]:
        """Leader, replicas and ISR of all partitions, as the running brokers say, once they agree."""

        def agreed() -> dict[tuple[str, int], tuple[int, list[int], list[int]]]:
            said = [self.metadata(one.address) for one in self.brokers.values() if one.is_running]
            views = [
                {
                    (name, index): (part.leader, part.replicas, sorted(part.isrs))
                    for name, topic in view.topics.items()
                    for index, part in topic.partitions.items()
                }
                for view in said
                if view is not None
            ]
            return views[0] if len(views) == len(said) and all(view == views[0] for view in views) else {}

        return wait_for(agreed, START_S, "the brokers agree on the partitions")


@pytest.fixture(scope="module")
def measured_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MeasuredCluster]:
    made = MeasuredCluster(tmp_path_factory.mktemp("counts"), settings=SETTINGS, tick_ms=TICK_MS)
    with running(made) as cluster:
        yield cluster


@pytest.fixture
def cluster(measured_cluster: MeasuredCluster) -> Iterator[MeasuredCluster]:
    measured_cluster.restore()
    with measured_cluster.explained():
        yield measured_cluster


def count(cluster: MeasuredCluster, expected: Mapping[str, float]) -> None:
    """What is written is counted when it is heard of, which may be a moment later."""

    def counts() -> dict[str, float]:
        totals = cluster.metrics()
        return {name: totals.get(name, 0.0) for name in expected}

    wait_for(lambda: counts() == expected, START_S, "the counts are right")


def fail_over(cluster: MeasuredCluster, victim: int, *, reason_pattern: str) -> None:
    """Kill a broker and start it again; what the others count of that."""
    broker = cluster.brokers[victim]
    before, totals = cluster.partitions(), cluster.metrics()
    led = sum(leader == victim for leader, _, _ in before.values())
    held = sum(victim in isr for _, _, isr in before.values())
    assert 0 < led < held < len(before)
    dead = broker.metrics()
    survivors = {name: totals[name] - dead.get(name, 0.0) for name in (SHRINKS, EXPANDS)}
    elected = totals[ELECTIONS] - sum(value for name, value in dead.items() if name.startswith(ELECTIONS))
    said = {one.id: len(one.log) for one in cluster.brokers.values()}

    broker.kill()
    wait_for(
        lambda: all(
            leader != victim and victim not in isr for leader, _, isr in cluster.partitions().values()
        ),
        START_S,
        "the others go on without it",
    )
    without = {
        SHRINKS: survivors[SHRINKS] + held,
        EXPANDS: survivors[EXPANDS],
        ELECTIONS: elected + led,
        UNCLEAN: 0,
        UNDER_REPLICATED: held,
        LEADERS: len(before),
        OFFLINE: 0,
        CONTROLLERS: 1,
    }
    count(cluster, without)

    broker.start()
    cluster.wait_settled()
    after = without | {EXPANDS: survivors[EXPANDS] + held, UNDER_REPLICATED: 0}
    count(cluster, after)
    assert broker.metrics()[SHRINKS] == 0

    _check_lines(cluster, said, rf"broker \d leads now, as {reason_pattern}")
    _check_lines(cluster, said, rf"broker {victim} is in sync")


def _check_lines(cluster: MeasuredCluster, said: Mapping[int, int], change: str) -> None:
    """It is said, in a few lines and not in one for each partition."""

    def lines() -> list[str]:
        return re.findall(change, "\n".join(one.log[said[one.id] :] for one in cluster.brokers.values()))

    wait_for(lambda: bool(lines()), START_S, "the log says why")
    assert len(lines()) <= 4


def test_over_a_failover_each_shrink_election_and_expand_counts_once(cluster: MeasuredCluster) -> None:
    before = cluster.metrics()
    for replicas in (2, 3):
        cluster.create_topic(f"{uuid.uuid4().hex[:6]}", 12, replicas, min_insync_replicas="1")
    cluster.wait_settled()
    quiet = {name: before[name] for name in (SHRINKS, EXPANDS, ELECTIONS, UNCLEAN)}
    count(cluster, quiet | {UNDER_REPLICATED: 0, LEADERS: before[LEADERS] + 24})

    controller = cluster.controller()
    victim = next(id for id in cluster.brokers if id != controller)
    gone = rf"broker {victim} (?:refuses connections|is gone)"
    fail_over(cluster, victim, reason_pattern=gone)

    away = [name for name, (leader, replicas, _) in cluster.partitions().items() if leader != replicas[0]]
    before = cluster.metrics()
    wanted = [KafkaPartition(topic, index) for topic, index in away]
    client = cluster.admin()  # it must live as long as the request
    client.elect_leaders(ElectionType.PREFERRED, wanted).result(START_S)
    requested = f'{ELECTIONS}{{reason="requested"}}'
    expected = {requested: before[requested] + len(away), SHRINKS: before[SHRINKS], EXPANDS: before[EXPANDS]}
    count(cluster, expected | {"kafka_controller_kafkacontroller_preferredreplicaimbalancecount": 0})

    fail_over(cluster, controller, reason_pattern=rf"broker {controller} (?:refuses connections|is gone)")


def test_a_zookeeper_that_is_away_shows_and_takes_no_broker_out_of_service(cluster: MeasuredCluster) -> None:
    before = {id: broker.metrics() for id, broker in cluster.brokers.items()}
    assert all(said["ottla_keeper_connected"] == 1 for said in before.values())
    cluster.zookeeper.kill(1)
    try:
        count(cluster, {"ottla_keeper_connected": 0, "ottla_ready": len(cluster.brokers)})
    finally:
        cluster.zookeeper.start_one(1)
    count(cluster, {"ottla_keeper_connected": len(cluster.brokers)})
    for id, said in before.items():
        after = cluster.brokers[id].metrics()
        lost, back = (f"{SESSIONS}{change}_total" for change in ("disconnects", "syncconnects"))
        assert (after[lost] - said[lost], after[back] - said[back]) == (1, 1)
        assert after["ottla_keeper_heard_seconds"] < SESSION_S
        assert after["ottla_keeper_request_seconds_count"] > said["ottla_keeper_request_seconds_count"]
