"""Who may lead, by the rules of design note 003."""

from tests.controller.worlds import World

from ottla.controller.election import LOST
from ottla.controller.plan import is_settled, plan
from ottla.controller.znodes import NO_LEADER


def world(isr_min: int = 1, **configs: object) -> World:
    """Three brokers, one partition on all of them, led by the first."""
    made = World(3)
    made.topic("t", {0: (1, 2, 3)}, min_insync_replicas=isr_min, **configs)
    return made


def leader(made: World) -> int:
    return made.state("t", 0).leader


def test_nothing_is_written_while_everybody_is_there() -> None:
    made = world()
    assert is_settled(made.image, made.image.topics["t"])
    assert plan(made.image, made.config) == {}


def test_the_first_in_sync_replica_of_the_assignment_takes_over_in_the_next_epoch() -> None:
    made = world()
    made.stop(1)
    made.settle()
    assert made.state("t", 0)[:4] == (2, 1, (2, 3), 1)


def test_a_follower_that_is_gone_leaves_the_isr_and_the_leader_epoch_stays() -> None:
    made = world()
    made.crash(3)
    made.settle()
    assert made.state("t", 0)[:4] == (1, 0, (1, 2), 1)


def test_the_last_of_the_isr_is_waited_for() -> None:
    made = world()
    for broker in (1, 2, 3):
        made.stop(broker)
        made.settle()
    state = made.state("t", 0)
    assert (state.leader, state.last_leader, state.isr) == (NO_LEADER, 3, (3,))
    made.start(1)
    made.settle()
    assert leader(made) == NO_LEADER, "it may have missed what broker 3 took alone"
    made.start(3)
    made.settle()
    assert leader(made) == 3


def test_whoever_restarted_cleanly_stays_in_the_isr_under_its_new_epoch() -> None:
    made = world()
    made.restart(2)
    made.settle()
    state = made.state("t", 0)
    assert (state.leader, state.leader_epoch, state.isr) == (1, 0, (1, 2, 3))
    assert state.isr_epochs[1] == made.epoch(2)


def test_a_leader_that_restarted_leads_again_in_a_new_epoch() -> None:
    made = world()
    made.restart(1)
    made.settle()
    assert made.state("t", 0)[:3] == (1, 1, (1, 2, 3))


def test_a_clean_restart_or_a_session_that_expired_does_not_hide_an_unclean_start_before_it() -> None:
    made = world()
    made.crash(1)
    made.crash(2, 3)
    made.start(1)
    made.restart(1)
    assert made.image.brokers[1].is_clean
    made.settle()
    assert leader(made) == NO_LEADER


def test_an_unclean_restart_that_was_seen_is_not_forgotten_after_a_clean_one() -> None:
    made = world()
    made.crash(1, 2, 3)
    made.start(1)
    made.settle()
    assert made.state("t", 0).isr_epochs[0] == LOST
    made.markers.clear()
    made.restart(1)
    made.settle()
    assert leader(made) == NO_LEADER


def test_fault_6_a_follower_with_a_new_disk_is_not_elected_while_the_expansion_for_it_was_in_flight() -> None:
    """KIP-903: it was written into the ISR in one incarnation, and is another one now."""
    made = world(isr_min=2)
    made.crash(3)
    made.settle()
    made.start(3)
    made.propose("t", 0, 1, 2, 3)
    made.reset(3)
    made.crash(1, 2)
    made.settle()
    assert leader(made) == NO_LEADER
    made.start(2)
    made.settle()
    assert leader(made) == NO_LEADER, "broker 1 is missing, and may hold more than 2 and 3"
    made.start(1)
    made.settle()
    assert leader(made) == 1, "all are there, all restarted uncleanly: the last leader"


def test_fault_7_the_last_replica_standing_does_not_lead_after_it_lost_its_tail() -> None:
    """KIP-966: A and B left the ISR in good order, C went on alone, below min.insync.replicas, crashed."""
    made = world(isr_min=2)
    made.stop(1)
    made.settle()
    made.stop(2)
    made.settle()
    state = made.state("t", 0)
    assert (state.leader, state.isr, state.elr) == (3, (3,), (2,)), (
        "broker 1 left an ISR that was large enough"
    )
    made.crash(3)
    made.settle()
    made.start(3)
    made.settle()
    assert leader(made) == NO_LEADER, "broker 2 holds all that is committed, broker 3 perhaps not"
    made.start(2)
    made.settle()
    state = made.state("t", 0)
    assert (state.leader, state.isr, state.elr) == (2, (2,), ())


def test_whoever_leaves_an_isr_that_is_too_small_is_eligible_until_it_is_large_enough() -> None:
    made = world(isr_min=2)
    made.propose("t", 0, 1)
    state = made.state("t", 0)
    assert (state.isr, state.elr) == ((1,), (2, 3))
    made.propose("t", 0, 1, 3)
    state = made.state("t", 0)
    assert (state.isr, state.elr, state.elr_epochs) == ((1, 3), (), ())


def test_a_member_of_the_elr_that_restarts_uncleanly_is_forgotten() -> None:
    made = world(isr_min=3)
    made.propose("t", 0, 1)
    made.restart(2)
    made.reset(3)
    made.settle()
    state = made.state("t", 0)
    assert (state.elr, state.elr_epochs) == ((2,), (made.epoch(2),))


def test_the_elr_goes_when_fewer_in_sync_replicas_are_asked_for() -> None:
    made = world(isr_min=2)
    made.propose("t", 0, 1)
    made.configure("t", min_insync_replicas=1)
    made.settle()
    assert made.state("t", 0).elr == ()


def test_more_in_sync_replicas_than_replicas_are_not_asked_for() -> None:
    made = World(2)
    made.topic("t", {0: (1, 2)}, min_insync_replicas=5)
    made.settle()
    assert made.state("t", 0).elr == ()
    made.stop(1)
    made.settle()
    assert made.state("t", 0).elr == (1,)


def test_all_restarted_uncleanly_the_last_leader_leads() -> None:
    made = world(isr_min=2)
    made.stop(1)
    made.settle()
    assert leader(made) == 2
    made.crash(2, 3)
    made.settle()
    made.start(3)
    alarms = made.settle()
    assert leader(made) == NO_LEADER
    assert not alarms
    made.start(2)
    assert made.settle() == [
        "t-0: broker 2 leads, though all replicas that held everything restarted uncleanly"
    ]
    assert made.state("t", 0)[:3] == (2, 3, (2,))


def test_fault_8_nobody_is_elected_uncleanly_unless_the_topic_allows_it() -> None:
    made = world()
    made.crash(2, 3)
    made.settle()
    made.crash(1)
    made.start(3)
    assert made.settle() == ["t-0: no leader; waits for one of 1"]
    assert leader(made) == NO_LEADER
    made.configure("t", unclean_leader_election_enable=True)
    assert made.settle() == ["t-0: unclean election of broker 3: what only 1 held is lost"]
    state = made.state("t", 0)
    assert (state.leader, state.isr, state.elr) == (3, (3,), ())


def test_a_broker_about_to_stop_hands_over_and_leaves_the_isr() -> None:
    made = world()
    made.announce_stop(1)
    made.settle()
    assert made.state("t", 0)[:3] == (2, 1, (2, 3))
    made.announce_stop(3)
    made.settle()
    assert made.state("t", 0)[:3] == (2, 1, (2,))


def test_a_broker_about_to_stop_leads_on_where_nobody_else_can() -> None:
    made = world()
    made.propose("t", 0, 1)
    made.announce_stop(1)
    made.settle()
    assert made.state("t", 0)[:3] == (1, 0, (1,))
    made.propose("t", 0, 1, 2)
    assert made.state("t", 0)[:3] == (2, 1, (2,)), "and hands over as soon as another is in sync"


def test_when_all_stop_the_isr_stays() -> None:
    made = world()
    for broker in (1, 2, 3):
        made.announce_stop(broker)
    made.settle()
    assert made.state("t", 0)[:3] == (1, 0, (1, 2, 3))


def test_a_replica_whose_directory_failed_neither_leads_nor_is_in_sync() -> None:
    made = world()
    made.lose_directory(1, ("t", 0))
    assert not is_settled(made.image, made.image.topics["t"])
    made.settle()
    assert made.state("t", 0)[:3] == (2, 1, (2, 3))


def test_a_state_from_a_single_broker_without_epochs_is_left_alone() -> None:
    made = World(1)
    made.topic("t", {0: (1,)})
    topic = made.image.topics["t"]
    topic.states = {0: topic.states[0]._replace(isr_epochs=())}
    made.image.brokers[1] = made.image.brokers[1].__class__(1, {}, None)
    assert is_settled(made.image, topic)
    assert plan(made.image, made.config) == {}
