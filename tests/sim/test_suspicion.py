"""Failover without waiting for a session, and brokers that only some can reach (design note 008): one fault
in a calm cluster, several seeds of each; and what would go wrong without the rule that is meant for it."""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
from tests.sim.keeper_client import KEEPER
from tests.sim.stories import SESSION_MS, Story
from tests.sim.world import ViolationError

from ottla.broker.controller_seat import Seat
from ottla.broker.controller_writes import ControllerWrites
from ottla.broker.liveness import DOUBT_MS, Liveness
from ottla.replication.partition import Partition

SEEDS = range(2)
FAILOVER_MS = 2_000
LONG_MS = 30_000
LAG_MS = 1_200  # replica.lag.time.max.ms
REBALANCE_MS = 5_000  # leader.imbalance.check.interval.seconds, and a little
Link = tuple[object, object]


def led_by_others(story: Story) -> list[int]:
    """The brokers beside the controller that lead something, those first with whom the controller has nothing
    to do."""
    apart = sorted(story.places(), key=lambda place: story.controller in story.isr(*place))
    leaders = dict.fromkeys(story.leader(*place) for place in apart)
    return [one for one in leaders if one != story.controller]


def begun(seed: int, brokers: int = 3) -> tuple[Story, int]:
    """A story, and a broker in it that leads something and is not the controller."""
    for attempt in range(20):
        story = Story(seed + 1_000 * attempt, brokers)
        if leaders := led_by_others(story):
            return story, leaders[0]
    raise AssertionError("the controller leads everything in all of them")


def a_killed_leader(seed: int) -> None:
    story, leader = begun(seed)
    story.machines[leader].kill()
    story.acknowledges(FAILOVER_MS)


def a_killed_controller(seed: int) -> None:
    story = Story(seed)
    victim = story.controller
    story.machines[victim].kill()
    story.acknowledges(FAILOVER_MS)
    assert_that(story.controller != victim, "another is the controller")
    assert_that(story.seats == 1, f"the seat is taken once, not {story.seats} times")


def assert_that(condition: bool, what: str) -> None:
    if not condition:
        raise ViolationError(f"it is not so that {what}")


def a_broker_that_only_the_controller_cannot_reach(seed: int) -> None:
    """It is alive: it loses what it leads, and is back after a while; nothing goes to and fro."""
    story, stranger = begun(seed)
    controller = story.controller
    links: list[Link] = [(controller, stranger), (stranger, controller)][: 1 + seed % 2]
    for link in links:
        story.network.refuse(*link)
    story.until(lambda: story.elections > 0, FAILOVER_MS, "others lead")
    story.acknowledges(FAILOVER_MS)
    story.passes(DOUBT_MS + REBALANCE_MS)
    elections, seats = story.elections, story.seats
    story.passes(LONG_MS)
    assert_that((story.elections, story.seats) == (elections, seats), "all is at rest, though it is refused")
    for place in story.places():
        leader, isr = story.leader(*place), set(story.isr(*place))
        reached = {one for one in story.machines if one == leader or (one, leader) not in links}
        assert_that(reached == isr, f"all that reach the leader {leader} of {place} are in sync: {isr}")
    assert_that(seats <= 1, "the seat has moved once at most")
    story.acknowledges(FAILOVER_MS)


def a_leader_that_is_cut_off_from_the_controller(seed: int) -> None:
    """What the leader proposes goes through the keeper: it goes on without the controller as a follower."""
    story, leader = begun(seed)
    controller = story.controller
    led = [place for place in story.places() if story.leader(*place) == leader]
    for link in ((leader, controller), (controller, leader)):
        story.network.cut(*link)
    story.passes(2 * LAG_MS + 3_000)
    for place in led:
        assert_that(controller not in story.isr(*place), f"the ISR of {place} has shrunk")
    story.acknowledges(FAILOVER_MS)
    story.passes(LONG_MS)
    assert_that(story.elections == 0 and story.seats == 0, "nobody is elected")
    story.acknowledges(FAILOVER_MS)


def a_controller_that_hears_no_broker(seed: int) -> None:
    story = Story(seed)
    deaf = story.controller
    for other in story.others:
        story.network.cut(other, deaf)
    story.until(lambda: story.controller not in {deaf, -1}, 15_000, "another is the controller")
    story.passes(LONG_MS)
    assert_that(story.seats == 1, f"the seat is taken once, not {story.seats} times")
    for other in [id for id in story.machines if id != deaf]:
        story.network.mend(other, deaf)
    story.until(lambda: story._unsettled() is None, 30_000, "all are in sync again")


def a_leader_that_is_replaced_on_suspicion_and_does_not_hear_of_it(seed: int) -> None:
    """It lives, and for seconds it takes itself for the leader. Its followers fetched from it until they were
    told to follow another, to whom producers go at once: what it answers to others must not deny what that
    one acknowledges (design note 007)."""
    story, leader = begun(seed, brokers=4)
    story.ask_often(12)
    controller = story.controller
    links: list[Link] = [(controller, leader), *((one, leader) for one in story.producers())]
    for link in links:
        story.network.refuse(*link)
    story.network.cut(KEEPER, leader)
    story.until(lambda: story.elections > 0, FAILOVER_MS, "others lead")
    story.passes(5_000)
    story.network.mend(KEEPER, leader)
    for link in links:
        story.network.admit(*link)
    story.until(lambda: story._unsettled() is None, 30_000, "all are in sync again")


def two_brokers_that_hear_each_other_no_more(seed: int) -> None:
    story = Story(seed, brokers=2)
    (other,), controller = story.others, story.controller
    for link in ((other, controller), (controller, other)):
        story.network.cut(*link)
    story.passes(LONG_MS)
    assert_that(story.controller == controller and story.seats == 0, "of two, the controller stays")


def brokers_that_all_refuse_each_other(seed: int) -> None:
    story = Story(seed, brokers=2 + seed % 2)
    for one in story.machines:
        for other in story.machines:
            if one != other:
                story.network.refuse(one, other)
    for _ in range(6):
        story.passes(5_000)
        seats = story.seats
        assert_that(seats <= len(story.machines) ** 2, f"the seat is not passed on for ever ({seats} times)")
    story.passes(LONG_MS)
    assert_that(story.seats == seats, "and it is at rest in the end")


def a_broker_that_stands_still(seed: int) -> None:
    """SIGSTOP, for less than its session: nothing is elected, whoever it is."""
    story, leader = begun(seed)
    process = story.machines[story.controller if seed % 2 else leader].running
    assert process is not None
    process.pause()
    story.passes(SESSION_MS // 3)
    process.resume()
    story.acknowledges(FAILOVER_MS)
    assert_that(story.elections == 0 and story.seats == 0, "nobody is elected")


def a_broker_that_is_killed_and_started_at_once(seed: int) -> None:
    story, leader = begun(seed)
    victim = story.controller if seed % 2 else leader
    story.machines[victim].kill()
    story.machines[victim].start()
    process = story.machines[victim].running
    assert process is not None
    story.until(lambda: process.is_serving, FAILOVER_MS, "it serves again")
    story.acknowledges(FAILOVER_MS)
    story.until(lambda: story._unsettled() is None, 10_000, "all are in sync again")


STORIES = [
    a_killed_leader,
    a_killed_controller,
    a_broker_that_only_the_controller_cannot_reach,
    a_leader_that_is_cut_off_from_the_controller,
    a_controller_that_hears_no_broker,
    a_leader_that_is_replaced_on_suspicion_and_does_not_hear_of_it,
    two_brokers_that_hear_each_other_no_more,
    brokers_that_all_refuse_each_other,
    a_broker_that_stands_still,
    a_broker_that_is_killed_and_started_at_once,
]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
@pytest.mark.parametrize("seed", SEEDS)
def test_it_goes_as_it_should(story: Callable[[int], None], seed: int) -> None:
    story(seed)


def _never(*_: Any) -> None:
    return None


def _if_free(self: Seat) -> bool:
    return self._image.controller_id < 0


Told = Callable[[int], None]
BUGS: dict[str, tuple[Told, type, str, Any]] = {
    "nobody is suspected": (a_killed_leader, Liveness, "on_probed", _never),
    "the seat waits for the session": (a_killed_controller, Seat, "_may_be_taken", _if_free),
    "the seat is taken back": (brokers_that_all_refuse_each_other, Seat, "_spare", _never),
    "a suspicion is never doubted": (
        a_broker_that_only_the_controller_cannot_reach, ControllerWrites, "doubt", _never,
    ),
    "proposals in the keeper are not read": (
        a_leader_that_is_cut_off_from_the_controller, ControllerWrites, "_take_reports", _never,
    ),
    "a deaf controller keeps its seat": (
        a_controller_that_hears_no_broker, Seat, "_leave", _never,
    ),
    "a new leader does not keep the promise of a follower": (
        a_leader_that_is_replaced_on_suspicion_and_does_not_hear_of_it,
        Partition, "promised_until_ms", property(lambda _self: 0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("bug", BUGS)
def test_without_its_rule_it_goes_wrong(bug: str) -> None:
    story, where, name, new = BUGS[bug]
    with patch.object(where, name, new), pytest.raises(ViolationError):
        _tell_all(story)


def _tell_all(story: Told) -> None:
    for seed in SEEDS:
        story(seed)
