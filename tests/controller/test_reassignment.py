"""Moving partitions to other brokers, phase by phase."""

import pytest
from tests.controller.worlds import World

from ottla.base.errors import ApiError, ErrorCode
from ottla.controller import reassignment
from ottla.controller.draft import Draft
from ottla.controller.image import Topic


def world(*replicas: int, **configs: object) -> World:
    made = World(5)
    made.topic("t", {0: replicas or (1, 2)}, **configs)
    return made


def move(made: World, *target: int, allows_factor_change: bool = True) -> Draft:
    return made.decide(
        "t",
        lambda draft: reassignment.begin(draft, 0, target, allows_factor_change=allows_factor_change),
    )


def topic(made: World) -> Topic:
    return made.image.topics["t"]


def roles(made: World) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    found = topic(made)
    return found.assignment[0], found.adding.get(0, ()), found.removing.get(0, ())


def code(made: World, *target: int, **options: bool) -> ErrorCode:
    with pytest.raises(ApiError) as refused:
        move(made, *target, **options)
    return refused.value.code


def test_new_replicas_come_then_the_leader_moves_and_the_old_ones_go() -> None:
    made = world(1, 2)
    move(made, 3, 4)
    assert roles(made) == ((3, 4, 1, 2), (3, 4), (1, 2))
    made.propose("t", 0, 1, 2, 3)
    assert roles(made)[1] == (3, 4), "not before all are in sync"
    made.propose("t", 0, 1, 2, 3, 4)
    assert roles(made) == ((3, 4), (), ())
    state = made.state("t", 0)
    assert (state.leader, state.leader_epoch, state.isr) == (3, 1, (3, 4))


def test_a_leader_that_stays_leads_on() -> None:
    made = world(1, 2)
    move(made, 1, 3)
    made.propose("t", 0, 1, 2, 3)
    assert (roles(made)[0], made.state("t", 0)[:3]) == ((1, 3), (1, 0, (1, 3)))


def test_replicas_in_another_order_are_written_at_once_and_nobody_moves() -> None:
    made = world(1, 2)
    move(made, 2, 1)
    assert roles(made) == ((2, 1), (), ())
    assert made.state("t", 0).leader == 1


def test_fewer_replicas_are_written_at_once() -> None:
    made = world(1, 2, 3)
    move(made, 2)
    assert roles(made) == ((2,), (), ())
    assert made.state("t", 0)[:3] == (2, 1, (2,))


def test_the_old_replicas_stay_while_the_new_ones_are_too_few() -> None:
    made = world(1, 2, min_insync_replicas=2)
    move(made, 2, 3)
    made.propose("t", 0, 1, 2)
    made.crash(2)
    made.settle()
    made.propose("t", 0, 1, 3)
    assert roles(made)[1:] == ((3,), (1,)), "broker 3 alone would be under min.insync.replicas"
    made.start(2)
    made.propose("t", 0, 1, 3, 2)
    assert roles(made) == ((2, 3), (), ())


def test_a_move_goes_on_under_another_controller_and_after_the_target_restarted() -> None:
    made = world(1, 2)
    move(made, 3, 4)
    made.propose("t", 0, 1, 2, 3)
    made.reset(3)
    made.settle()
    assert made.state("t", 0).isr == (1, 2)
    made.propose("t", 0, 1, 2, 3)
    made.propose("t", 0, 1, 2, 3, 4)
    assert roles(made) == ((3, 4), (), ())


def test_cancelled_the_old_replicas_are_all_there_is() -> None:
    made = world(1, 2)
    move(made, 3, 4)
    made.propose("t", 0, 1, 2, 3)
    made.decide("t", lambda draft: reassignment.cancel(draft, 0))
    assert roles(made) == ((1, 2), (), ())
    assert made.state("t", 0).isr == (1, 2)


def test_nothing_to_cancel_is_an_error() -> None:
    with pytest.raises(ApiError) as refused:
        world().decide("t", lambda draft: reassignment.cancel(draft, 0))
    assert refused.value.code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_another_target_starts_from_the_original() -> None:
    made = world(1, 2)
    move(made, 3, 4)
    made.propose("t", 0, 1, 2, 3)
    move(made, 4, 5)
    assert roles(made) == ((4, 5, 1, 2), (4, 5), (1, 2))
    assert made.state("t", 0).isr == (1, 2), "broker 3 is no replica any more"


def test_what_only_the_new_replicas_hold_is_not_given_up() -> None:
    made = world(1, 2)
    move(made, 3, 4)
    made.propose("t", 0, 1, 2, 3)
    made.crash(1, 2)
    made.settle()
    assert made.state("t", 0)[:1] + made.state("t", 0)[2:3] == (3, (3,))
    made.start(1)
    made.settle()
    for attempt in (lambda draft: reassignment.cancel(draft, 0), lambda d: reassignment.begin(d, 0, (1, 2))):
        with pytest.raises(ApiError) as refused:
            made.decide("t", attempt)
        assert refused.value.code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert roles(made) == ((3, 4, 1, 2), (3, 4), (1, 2))


@pytest.mark.parametrize("target", [(), (3, 3), (3, 9), (-1,)])
def test_a_target_that_cannot_be_is_refused(target: tuple[int, ...]) -> None:
    assert code(world(), *target) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_broker_that_is_gone_may_stay_but_not_come() -> None:
    made = world(1, 2)
    made.stop(2, 3)
    made.settle()
    assert code(made, 1, 3) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    move(made, 2, 4)
    assert roles(made) == ((2, 4, 1), (4,), (1,))


def test_another_number_of_replicas_is_refused_to_who_does_not_want_it() -> None:
    assert code(world(), 3, allows_factor_change=False) == ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_partition_that_is_not_there_cannot_move() -> None:
    with pytest.raises(ApiError) as refused:
        world().decide("t", lambda draft: reassignment.begin(draft, 7, (1,)))
    assert refused.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
