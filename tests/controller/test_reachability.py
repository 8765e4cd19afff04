"""Who reaches whom, by what brokers say in their reports."""

import pytest
from tests.controller.worlds import World

from ottla.controller import znodes
from ottla.controller.keeper import NodeChanged
from ottla.controller.reachability import is_cut_off, is_reported
from ottla.controller.znodes import Proposed, Report


def report(world: World, by: int, *unreachable: int, epoch: int | None = None) -> None:
    brokers = world.image.brokers
    node = znodes.report_node(
        Report(brokers[by].epoch if epoch is None else epoch, {id: brokers[id].epoch for id in unreachable})
    )
    world.image.apply(NodeChanged(f"{znodes.REPORTS}{by}", node, 0))


def test_a_report_survives_its_node() -> None:
    proposed = Proposed(b"i" * 16, 3, 7, 9, ((1, 100), (2, 101)))
    made = Report(100, {2: 101, 3: 102}, (proposed,))
    assert znodes.parse_report_node(znodes.report_node(made)) == made
    assert znodes.parse_report_node(znodes.report_node(Report(5))) == Report(5)


def test_a_report_is_about_an_incarnation_and_from_one() -> None:
    world = World(3)
    report(world, 2, 1)
    assert is_reported(world.image, 1, by=2)
    assert not is_reported(world.image, 1, by=3)
    assert not is_reported(world.image, 3, by=2)
    world.restart(1)
    assert not is_reported(world.image, 1, by=2), "that was the one before"
    report(world, 2, 1)
    world.restart(2)
    assert not is_reported(world.image, 1, by=2), "who said so is another now"


def test_a_report_is_gone_with_its_node() -> None:
    world = World(3)
    report(world, 2, 1)
    world.image.apply(NodeChanged(f"{znodes.REPORTS}2", None, 0))
    assert world.image.report(2) is None


def test_a_broker_that_no_other_reaches_is_cut_off() -> None:
    world = World(3)
    report(world, 2, 1)
    report(world, 3, 1)
    assert is_cut_off(world.image, 1, {2, 3})
    assert not is_cut_off(world.image, 1, {2}), "it reaches one"


@pytest.mark.parametrize(
    ("second", "third"), [((1,), ()), ((), (1,)), ((1, 3), (1,)), ((1,), (1, 2)), ((1, 3), (1, 2))]
)
def test_it_is_not_if_one_reaches_it_or_the_others_are_no_better_off(
    second: tuple[int, ...], third: tuple[int, ...]
) -> None:
    world = World(3)
    report(world, 2, *second)
    report(world, 3, *third)
    assert not is_cut_off(world.image, 1, {2, 3})


def test_of_two_neither_is_cut_off() -> None:
    world = World(2)
    report(world, 2, 1)
    assert not is_cut_off(world.image, 1, {2})
    assert not is_cut_off(World(1).image, 1, set())
