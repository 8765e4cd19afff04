"""What the controller has done is counted once it is written, and said with the reason."""

import logging
from collections import Counter

import pytest
from tests.broker.controllers import Controllers
from tests.broker.test_controller_writes import proposal

from ottla.base.ids import ZERO_UUID
from ottla.broker.effects import Sign
from ottla.controller.causes import Reason
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions

EVENTS = "ottla.broker.controller_events"
CLUSTER = "ottla.broker.cluster_events"
REPLICAS = "ottla.broker.replicas"


@pytest.fixture(autouse=True)
def _at_info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


def settle(cluster: Controllers) -> None:
    for _ in range(3):
        cluster.tick()


def lines(caplog: pytest.LogCaptureFixture, *loggers: str) -> Counter[str]:
    """What these have said since this was last asked for, the controller if none is named."""
    named = loggers or (EVENTS,)
    said = Counter(record.getMessage() for record in caplog.records if record.name in named)
    caplog.clear()
    return said


def elections(cluster: Controllers, broker: int = 1) -> dict[Reason, int]:
    counted = cluster.brokers[broker].controller_events.elections
    return {reason: count for reason, count in counted.items() if count}


def shrinks_and_expands(cluster: Controllers) -> tuple[int, int]:
    counts = [broker.replica_counts for broker in cluster.brokers.values()]
    return sum(count.isr_shrinks for count in counts), sum(count.isr_expands for count in counts)


def test_when_a_broker_dies_there_is_a_line_for_each_cause_and_none_for_each_partition(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = Controllers(3)
    for number in range(100):  # more than go into one write
        cluster.create(f"t{number:03}", (3, 2), (2, 3), (1, 2))
    settle(cluster)
    caplog.clear()
    writes = cluster.keeper.writes
    cluster.die(3)
    settle(cluster)
    assert lines(caplog) == {
        "t000-0, t001-0, t002-0 and 97 more: broker 2 leads now, as broker 3 is gone": 1,
        "t000-1, t001-1, t002-1 and 97 more: broker 3 left the ISR, as broker 3 is gone": 1,
    }
    assert elections(cluster) == {Reason.GONE: 100}
    assert shrinks_and_expands(cluster) == (200, 0)
    events = cluster.brokers[1].controller_events
    assert sum(events.election_durations.counts) == cluster.keeper.writes - writes > 1
    assert events.unclean_elections == 0


def test_each_broker_says_what_it_leads_and_follows_now(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Controllers(3)
    caplog.clear()
    cluster.create("t", (3, 2, 1), (3, 1, 2))
    settle(cluster)
    assert lines(caplog, REPLICAS) == {
        "t-0, t-1: this broker leads now": 1,
        "t-0, t-1: this broker follows broker 3 now": 2,
    }
    cluster.die(3)
    settle(cluster)
    assert lines(caplog, REPLICAS) == {
        "t-0: this broker leads now": 1,  # broker 2
        "t-1: this broker follows broker 1 now": 1,
        "t-1: this broker leads now": 1,  # broker 1
        "t-0: this broker follows broker 2 now": 1,
    }
    cluster.die(2)
    cluster.die(1)


def test_an_isr_that_shrinks_and_grows_counts_on_its_leader(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Controllers(3)
    cluster.create("t", (2, 3))
    settle(cluster)
    caplog.clear()
    cluster.ask(1, proposal(cluster, 2, 2))
    settle(cluster)
    assert lines(caplog) == {"t-0: broker 3 left the ISR, as its leader, broker 2, finds it late": 1}
    cluster.ask(1, proposal(cluster, 2, 2, 3))
    settle(cluster)
    assert lines(caplog) == {"t-0: broker 3 is in sync": 1}
    counts = cluster.brokers[2].replica_counts
    assert (counts.isr_shrinks, counts.isr_expands) == (1, 1)
    assert shrinks_and_expands(cluster) == (1, 1)
    assert elections(cluster) == {}


def test_a_failover_and_the_way_back_count_each_change_once(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Controllers(3, leader_imbalance_check_interval_seconds="10")
    cluster.create("t", (3, 2, 1))
    cluster.create("u", (2, 3, 1))
    cluster.die(3)
    settle(cluster)
    assert shrinks_and_expands(cluster) == (2, 0)
    cluster.start(3)
    cluster.ask(1, proposal(cluster, 2, 1, 2, 3))
    cluster.ask(1, proposal(cluster, 2, 1, 2, 3, topic="u"))
    settle(cluster)
    caplog.clear()
    cluster.tick(10_000)
    settle(cluster)
    assert cluster.state("t").leader == 3
    assert lines(caplog) == {"t-0: broker 3 leads now, as broker 3 is the preferred leader": 1}
    assert elections(cluster) == {Reason.GONE: 1, Reason.PREFERRED: 1}
    assert shrinks_and_expands(cluster) == (2, 2)


def test_an_operators_election_says_so(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Controllers(3)
    cluster.create("t", (3, 2))
    cluster.die(3)
    cluster.start(3)
    cluster.ask(1, proposal(cluster, 2, 2, 3))
    settle(cluster)
    caplog.clear()
    wanted = [TopicPartitions(topic="t", partitions=[0])]
    cluster.ask(1, ElectLeadersRequest(election_type=0, topic_partitions=wanted, timeout_ms=1_000))
    settle(cluster)
    assert lines(caplog) == {"t-0: broker 3 leads now, as an operator asked for it": 1}
    assert elections(cluster) == {Reason.GONE: 1, Reason.REQUESTED: 1}


def test_an_unclean_election_counts_as_such(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Controllers(3)
    for number in range(5):
        cluster.create(f"t{number}", (3, 2), unclean_leader_election_enable=True)
        cluster.ask(1, proposal(cluster, 3, 3, topic=f"t{number}"))
    settle(cluster)
    caplog.clear()
    cluster.die(3)
    settle(cluster)
    assert lines(caplog) == {
        "t0-0, t1-0, t2-0 and 2 more: unclean election of broker 2: what only 3 held is lost": 1,
        "t0-0, t1-0, t2-0 and 2 more: broker 2 leads now, as broker 3 is gone (unclean)": 1,
    }
    assert cluster.brokers[1].controller_events.unclean_elections == 5
    assert elections(cluster) == {Reason.GONE: 5}


def test_a_partition_without_a_leader_gets_one_back_with_the_broker(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Controllers(3)
    cluster.create("t", (3,))
    cluster.die(3)
    settle(cluster)
    assert lines(caplog)["t-0: no leader; waits for one of 3"] == 1
    assert elections(cluster) == {}
    cluster.start(3)
    settle(cluster)
    assert lines(caplog)["t-0: broker 3 leads now, as broker 3 is back"] == 1
    assert elections(cluster) == {Reason.RETURNED: 1}


def test_a_broker_that_refuses_connections_is_named_as_suspected(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Controllers(3)
    cluster.create("t", (3, 2))
    settle(cluster)
    caplog.clear()
    epoch = cluster.brokers[1].image.brokers[3].epoch
    for _ in range(2):
        cluster.now_ms += 300
        cluster.brokers[1].on_probed(3, epoch, Sign.REFUSED, cluster.now_ms)
    settle(cluster)
    why = "broker 3 refuses connections and is taken to be gone"
    assert lines(caplog) == {f"t-0: broker 2 leads now, as {why}": 1}
    assert elections(cluster) == {Reason.SUSPECTED: 1}


def test_a_broker_that_stops_or_was_restarted_is_named_as_such(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Controllers(3)
    cluster.create("t", (3, 2))
    cluster.brokers[3].begin_stop(cluster.now_ms)
    cluster.carry_out()
    settle(cluster)
    assert lines(caplog)["t-0: broker 2 leads now, as broker 3 is about to stop"] == 1
    cluster.create("u", (2,))
    cluster.blind.add(1)  # it sees the end and the next beginning at once
    cluster.die(2)
    cluster.blind.clear()
    cluster.start(2, is_clean=False)
    settle(cluster)
    uncleanly = "all replicas that held everything restarted uncleanly"
    assert lines(caplog) == {
        f"t-0, u-0: broker 2 leads, though {uncleanly}": 1,
        f"t-0, u-0: broker 2 leads now, as broker 2 was restarted ({uncleanly})": 1,
    }
    assert elections(cluster)[Reason.STOPPING] == 1


def test_an_election_by_a_reassignment_is_named_as_such(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Controllers(3)
    cluster.create("t", (3, 2))
    settle(cluster)
    caplog.clear()
    wanted = ReassignablePartition(partition_index=0, replicas=[2])
    topic = ReassignableTopic(name="t", partitions=[wanted])
    cluster.ask(1, AlterPartitionReassignmentsRequest(topics=[topic], timeout_ms=1_000))
    settle(cluster)
    assert cluster.state("t").leader == 2
    assert lines(caplog, EVENTS, REPLICAS) == {
        "t-0: broker 2 leads now, as the partition was reassigned": 1,
        "t-0: this broker leads now": 1,  # broker 2
        "t-0: no longer on this broker": 1,  # broker 3
    }


def test_an_answer_that_was_lost_counts_once_if_it_was_written() -> None:
    for is_written in (True, False):
        cluster = Controllers(3)
        cluster.create("t", (3, 2))
        cluster.keeper.losing = [is_written]
        cluster.die(3)
        settle(cluster)
        assert elections(cluster) == {Reason.GONE: 1}, is_written
        assert shrinks_and_expands(cluster) == (1, 0), is_written


def test_a_refused_proposal_is_a_failed_update() -> None:
    """As its leader hears it; `tests/broker/test_isr` has the requests."""
    cluster = Controllers(2)
    cluster.create("t", (2, 1))
    leader = cluster.brokers[2]
    partition = next(iter(leader.partitions.values()))
    assert partition.replication is not None
    answer = cluster.ask(1, proposal(cluster, 2, 2, 9)).answer
    leader.isr._on_answer({}, answer, cluster.now_ms)
    assert leader.replica_counts.isr_updates_failed == 1


def test_brokers_that_come_and_go_are_named_by_all_others(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Controllers(2)
    caplog.clear()
    cluster.start(3, is_clean=False)  # as a first start is
    epoch = cluster.brokers[1].image.brokers[3].epoch
    assert lines(caplog, CLUSTER) == {f"broker 3 is there, in epoch {epoch}": 2}
    cluster.die(3)
    assert lines(caplog, CLUSTER) == {"broker 3 is gone": 2}
    cluster.start(3, is_clean=False)
    epoch = cluster.brokers[1].image.brokers[3].epoch
    assert lines(caplog, CLUSTER) == {
        f"broker 3 is there, in epoch {epoch}, after an end that was not clean": 2
    }
    cluster.brokers[3].begin_stop(cluster.now_ms)
    cluster.carry_out()
    assert lines(caplog, CLUSTER) == {"broker 3 is about to stop": 2}
    cluster.die(3)
    assert lines(caplog, CLUSTER) == {"broker 3 is gone, as it said that it would stop": 2}
    cluster.die(1)
    assert lines(caplog, CLUSTER) == {
        "broker 1 is gone": 1,
        "there is no controller; brokers elect another": 1,
    }
    assert cluster.controller == 2
    assert cluster.brokers[2].cluster_events.controllers == 1


def test_topics_are_named_by_the_controller_alone(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Controllers(2)
    settle(cluster)
    caplog.clear()
    for number in range(5):
        cluster.create(f"t{number}", (1, 2), (2, 1))
    settle(cluster)
    created = "topic t0, t1, t2 and 2 more: created, with 2 partitions and 2 replicas of each"
    assert lines(caplog, CLUSTER) == {created: 1}
    gone = [DeleteTopicState(name="t3", topic_id=ZERO_UUID)]
    cluster.ask(1, DeleteTopicsRequest(topics=gone, timeout_ms=1000))
    settle(cluster)
    assert lines(caplog, CLUSTER) == {"topic t3: deleted": 1}


def test_what_is_not_said_yet_is_said_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Controllers(1)
    cluster.create("t", (1,))
    cluster.brokers[1].close(cluster.now_ms)
    assert "t-0: this broker leads now" in lines(caplog, REPLICAS)
