"""What must be survived (design note 015, part 4), under continuous idempotent load with acks=all.

In every case: nothing acknowledged is lost, duplicated or reordered; no reader skips, goes back or sees the
high watermark go back. The longest time without a leader is printed.
"""

import time
import uuid

import pytest
from confluent_kafka import KafkaError, Producer
from tests.cluster.load import Load
from tests.cluster.namespaces import Network
from tests.cluster.real import LAG_S, QUIET, SESSION_S, START_S, RealCluster, restart_rolling
from tests.cluster.survival import IS_SLOW, SLACK_S, flows_again, survive
from tests.support.waiting import wait_for

HANDOVER_S = SESSION_S + SLACK_S if IS_SLOW else 1.0  # one that stands still loses its session
REQUEST_S = 5.0  # a client waits so long for an answer before it looks for another leader


def test_kill_9_of_a_leader(cluster: RealCluster) -> None:
    def fault(topic: str, load: Load) -> None:
        victim = cluster.brokers[cluster.leader(topic)]
        victim.kill()
        flows_again(load)
        victim.start()

    survive(cluster, "kill-leader", fault, SESSION_S + SLACK_S)


def test_kill_9_of_the_controller(cluster: RealCluster) -> None:
    def fault(topic: str, load: Load) -> None:
        victim = cluster.brokers[cluster.controller()]
        victim.kill()
        began = time.monotonic()
        wait_for(lambda: cluster.controller() != victim.id, START_S, "there is another controller")
        cluster.create_topic(f"after-{topic}", replicas=2)
        print(f"\ntopics can be created again after {time.monotonic() - began:.2f} s")
        victim.start()

    survive(cluster, "kill-controller", fault, SESSION_S + SLACK_S)


def test_a_leader_that_sleeps_past_its_session_wakes_up_as_a_zombie(cluster: RealCluster) -> None:
    def fault(topic: str, load: Load) -> None:
        zombie = cluster.brokers[cluster.leader(topic)]
        zombie.pause()
        try:
            wait_for(lambda: cluster.leader(topic) != zombie.id, START_S, "another one leads")
            flows_again(load)
        finally:
            zombie.resume()
        cluster.wait_settled()

    survive(cluster, "zombie", fault, SESSION_S + SLACK_S + REQUEST_S)


def test_zookeeper_is_away_for_20_s_and_nobody_notices(cluster: RealCluster) -> None:
    def fault(_topic: str, load: Load) -> None:
        cluster.zookeeper.pause()
        try:
            until = time.monotonic() + 20
            while time.monotonic() < until:
                flows_again(load)
        finally:
            cluster.zookeeper.resume()
        cluster.wait_settled()

    survive(cluster, "no-zookeeper", fault, SESSION_S + SLACK_S)  # its sessions are over when it is back


def test_acks_1_goes_on_without_zookeeper_and_ends_without_a_follower_too(cluster: RealCluster) -> None:
    topic = cluster.create_topic(f"acks-1-{uuid.uuid4().hex[:6]}", 1)

    def outcome() -> str | None:
        """What one attempt came to; None if it was taken."""
        said: list[KafkaError | None] = []
        producer = Producer(
            {"bootstrap.servers": cluster.bootstrap, "acks": 1, "message.timeout.ms": 5_000, **QUIET}
        )
        producer.produce(topic, b"x", on_delivery=lambda error, _message: said.append(error))
        assert producer.flush(20) == 0
        return said[0].name() if said[0] is not None else None

    wait_for(lambda: outcome() is None, 30, "acks=1 is taken")
    leader = cluster.leader(topic)
    follower = next(broker for broker in cluster.brokers.values() if broker.id != leader)
    cluster.zookeeper.pause()
    try:
        time.sleep(SESSION_S)
        wait_for(lambda: outcome() is None, 30, "acks=1 is taken, because the followers still follow")
        follower.pause()
        try:
            time.sleep(2)  # what the follower said counts for a second
            assert outcome() == "_MSG_TIMED_OUT", "others may lead by now, as far as the leader can know"
        finally:
            follower.resume()
    finally:
        cluster.zookeeper.resume()
    cluster.wait_settled()
    wait_for(lambda: outcome() is None, 30, "acks=1 is taken again")


def test_every_broker_is_restarted_in_turn(cluster: RealCluster) -> None:
    def fault(_topic: str, load: Load) -> None:
        restart_rolling(cluster, lambda: flows_again(load))

    survive(cluster, "rolling-restart", fault, SLACK_S)


def test_a_leader_that_is_told_to_stop_hands_over_first(cluster: RealCluster) -> None:
    def fault(topic: str, load: Load) -> None:
        leader = cluster.brokers[cluster.leader(topic)]
        before = len(leader.log)
        leader.stop()
        assert "leadership is handed over" in leader.log[before:]
        flows_again(load)
        leader.start()

    survive(cluster, "sigterm", fault, HANDOVER_S)


def test_a_broker_is_cut_off_from_everybody_and_comes_back(networked: tuple[RealCluster, Network]) -> None:
    cluster, network = networked

    def fault(topic: str, load: Load) -> None:
        victim = cluster.leader(topic)
        with network.cut(victim):
            flows_again(load)
            wait_for(lambda: cluster.leader(topic) != victim, START_S, "another one leads")
        cluster.wait_settled()

    survive(cluster, "cut-off", fault, SESSION_S + SLACK_S + REQUEST_S)


def test_a_leader_that_is_cut_off_from_zookeeper_alone_is_replaced(
    networked: tuple[RealCluster, Network],
) -> None:
    """Clients and followers still reach it: it must not acknowledge anything in its old epoch."""
    cluster, network = networked

    def fault(topic: str, load: Load) -> None:
        victim = cluster.leader(topic)
        others = ",".join(one.address for one in cluster.brokers.values() if one.id != victim)
        with network.cut_from(victim, network.keeper):
            wait_for(
                lambda: cluster.leaders(topic, others).isdisjoint({victim, -1}),
                START_S,
                "others lead everything",
            )
            flows_again(load)
        cluster.wait_settled()

    survive(cluster, "no-zookeeper-for-one", fault, SESSION_S + SLACK_S + REQUEST_S)


def test_a_leader_that_its_followers_do_not_hear_acknowledges_nothing(
    networked: tuple[RealCluster, Network],
) -> None:
    """It has its session and its clients. Its ISR must not shrink to itself and be enough. While it shrinks,
    what one follower has, and the other had not, may still be acknowledged."""
    cluster, network = networked

    def fault(topic: str, load: Load) -> None:
        victim = cluster.leader(topic)
        others = [one.host for one in cluster.brokers.values() if one.id != victim]
        with network.cut_from(victim, *others):
            time.sleep(2 * LAG_S)
            since = time.monotonic()
            wait_for(lambda: load.quiet_s(0, since) > LAG_S, 5 * LAG_S, "nothing is acknowledged any more")
        cluster.wait_settled()

    survive(cluster, "no-followers", fault, 7 * LAG_S + SESSION_S + SLACK_S + REQUEST_S)


def test_all_brokers_are_killed_at_once(cluster: RealCluster) -> None:
    def fault(_topic: str, load: Load) -> None:
        for one in cluster.brokers.values():
            one.kill()
        for one in cluster.brokers.values():
            one.launch()
        for one in cluster.brokers.values():
            one.wait_ready()

    survive(cluster, "kill-all", fault, 60)


pytestmark = pytest.mark.timeout(300)
