"""A leader that lives, is replaced, and hears of it late (design note 007): what a new leader acknowledges in
the meantime is not denied; it would be, if followers kept no promise or vouched for what they cannot know."""

from typing import Any
from unittest.mock import PropertyMock, patch

import pytest
from tests.sim.test_suspicion import begun
from tests.sim.world import ViolationError

from ottla.replication.leader import Leader
from ottla.replication.partition import Partition

SEEDS = range(6)
VERY_LATE_MS = 600_000
REPLACED_MS = 2_000
PACE_MS = 12
DENIED = "when it was|is out of the range"


def a_leader_that_hears_late_of_its_replacement(seed: int) -> None:
    story, old = begun(seed)
    cluster, controller = story.cluster, story.controller
    led = [place for place in story.places() if story.leader(*place) == old]
    cluster.add_witnesses(old, led, PACE_MS)
    story.passes(500)
    process = story.machines[old].running
    assert process is not None
    process.keeper.late_ms = VERY_LATE_MS
    story.network.refuse(controller, old)
    story.until(lambda: story.elections > 0, REPLACED_MS, "another one leads")
    story.passes(3_000)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_that_its_successor_acknowledged_is_denied(seed: int) -> None:
    a_leader_that_hears_late_of_its_replacement(seed)


def _tell_all() -> None:
    for seed in SEEDS:
        a_leader_that_hears_late_of_its_replacement(seed)


def test_without_the_promise_of_the_followers_it_is() -> None:
    with (
        patch.object(Partition, "promised_until_ms", new_callable=PropertyMock, return_value=0),
        pytest.raises(ViolationError, match=DENIED),
    ):
        _tell_all()


def test_with_fetches_that_vouch_for_the_future_it_is() -> None:
    original = Leader.on_fetch

    def on_fetch(self: Leader, *place: Any, **fetched: Any) -> list[Any]:
        return original(self, *place, **{**fetched, "vouched_ms": fetched["now_ms"] + 5_000})

    with patch.object(Leader, "on_fetch", on_fetch), pytest.raises(ViolationError, match=DENIED):
        _tell_all()
