"""A broker that is registered and suspected to be gone: what that means to its partitions."""

import pytest
from tests.controller.worlds import World

from ottla.base.errors import ApiError, ErrorCode
from ottla.controller.plan import elect_preferred, elect_unclean, is_settled


def world(**configs: object) -> World:
    made = World(3)
    made.topic("t", {0: (1, 2, 3)}, **({"min_insync_replicas": 2} | configs))
    return made


def test_another_leads_in_place_of_a_suspect_who_leaves_the_isr() -> None:
    made = world()
    made.suspected = {1}
    assert not is_settled(made.image, made.image.topics["t"], made.suspected)
    made.settle()
    assert made.state("t", 0)[:3] == (2, 1, (2, 3))


def test_a_follower_that_is_suspected_leaves_the_isr_and_nobody_is_elected() -> None:
    made = world()
    made.suspected = {3}
    made.settle()
    assert made.state("t", 0)[:3] == (1, 0, (1, 2))
    assert is_settled(made.image, made.image.topics["t"], made.suspected)


def test_whoever_leaves_a_small_isr_on_suspicion_is_remembered() -> None:
    made = world()
    made.stop(3)
    made.settle()
    made.suspected = {1}
    made.settle()
    state = made.state("t", 0)
    assert (state.leader, state.isr, state.elr) == (2, (2,), (1,))
    assert state.elr_epochs == (made.image.brokers[1].epoch,)


def test_a_suspect_cannot_join_an_isr_before_it_answers() -> None:
    made = world()
    made.suspected = {3}
    made.settle()
    with pytest.raises(ApiError) as refused:
        made.propose("t", 0, 1, 2, 3)
    assert refused.value.code == ErrorCode.INELIGIBLE_REPLICA
    made.suspected = set()
    made.propose("t", 0, 1, 2, 3)
    assert made.state("t", 0).isr == (1, 2, 3)


def test_where_nobody_else_can_lead_a_suspicion_changes_nothing() -> None:
    made = World(3)
    made.topic("alone", {0: (1,)})
    made.topic("last", {0: (1, 2, 3)}, min_insync_replicas=1)
    made.propose("last", 0, 1)
    before = made.state("alone", 0), made.state("last", 0)
    made.suspected = {1}
    assert made.settle() == []
    assert (made.state("alone", 0), made.state("last", 0)) == before


def test_nobody_is_elected_uncleanly_for_a_mere_suspicion() -> None:
    made = world(unclean_leader_election_enable=True, min_insync_replicas=1)
    made.propose("t", 0, 1)
    made.suspected = {1}
    assert made.settle() == []
    assert made.state("t", 0).leader == 1
    made.stop(1)
    assert "unclean election" in made.settle()[0]


def test_a_leader_that_is_suspected_and_keeps_its_place_can_still_go_on_alone() -> None:
    made = World(3)
    made.topic("t", {0: (1, 2)}, min_insync_replicas=1)
    made.propose("t", 0, 1)
    made.suspected = {1}
    made.propose("t", 0, 1, 2)
    assert made.state("t", 0)[:3] == (2, 1, (2,)), "and as soon as another can lead, that one does"


def test_an_operator_is_served_as_if_a_suspect_were_not_there() -> None:
    made = world()
    made.suspected = {1}
    made.settle()
    with pytest.raises(ApiError) as refused:
        made.decide("t", lambda draft: elect_preferred(draft, 0))
    assert refused.value.code == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    with pytest.raises(ApiError) as refused:
        made.decide("t", lambda draft: elect_unclean(draft, 0))
    assert refused.value.code == ErrorCode.ELECTION_NOT_NEEDED


def test_a_state_can_be_moved_on_without_another_change_once() -> None:
    made = world()
    before = made.state("t", 0)
    made.decide("t", lambda draft: draft.touch(0), lambda draft: draft.touch(0))
    assert made.state("t", 0) == before._replace(partition_epoch=before.partition_epoch + 1)
