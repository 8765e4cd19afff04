"""Producers that are throttled all the time lose nothing, and no replication waits for them."""

import pytest
from tests.sim.keeper import NOBODY
from tests.sim.stories import Story

from ottla.controller.user_nodes import DEFAULT, Entity, write

WITHIN_MS = 120_000


@pytest.mark.parametrize("seed", range(2))
def test_a_leader_is_killed_while_all_clients_are_throttled(seed: int) -> None:
    story = Story(seed)
    quotas = {"producer_byte_rate": "100", "consumer_byte_rate": "400", "request_percentage": "0.5"}
    story.cluster.keeper.write(write(Entity(user=DEFAULT), quotas, -1), NOBODY)
    story.until(lambda: story.world.reached["muted"] > 20, WITHIN_MS, "clients are muted")
    topic, partition = story.places()[0]
    victim = story.leader(topic, partition)
    story.machines[victim].kill()
    story.acknowledges(WITHIN_MS)
    story.machines[victim].start()
    story.passes(10_000)
