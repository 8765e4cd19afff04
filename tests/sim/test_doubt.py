"""A broker that is cut off from the keeper, is replaced, and hears nothing of it: a client that asks only
whom it is connected to (as librdkafka does) would stay with it for as long as that lasts; it is sent away."""

from unittest.mock import patch

import pytest
from tests.sim.keeper_client import KEEPER
from tests.sim.producers import SafeProducer
from tests.sim.test_suspicion import begun
from tests.sim.world import ViolationError

from ottla.broker import leadership_proofs

SEEDS = range(2)
GETS_ON_MS = 30_000
MANY = 50  # records: more than it sends before it waits for answers


class Loyal(SafeProducer):
    """Asks a broker it is connected to, as long as there is one. A new producer id it does not ask for: that
    broker could not give it one, and it would leave for want of an answer."""

    renewals = (0, 0)

    def any_broker(self) -> int:
        connected = sorted(broker for broker, one in self._connections.items() if one.is_open)
        if not connected:
            return super().any_broker()
        return connected[self.world.draw(0, len(connected) - 1)]


def a_client_of_a_broker_that_is_cut_off(seed: int) -> None:
    story, old = begun(seed)
    cluster = story.cluster
    topic, partition = next(place for place in story.places() if story.leader(*place) == old)
    client = Loyal(
        *cluster.where("loyal"), ledger=cluster.ledger, topic=topic, partition=partition, pace_ms=20
    )
    client.brokers, everybody = [old], client.brokers
    client.start()
    story.passes(1_000)
    assert list(client._connections) == [old]
    client.brokers = everybody
    story.network.cut(old, KEEPER)
    story.network.cut(KEEPER, old)
    story.until(lambda: story.leader(topic, partition) != old, GETS_ON_MS, "another one leads")
    before = client.sent
    story.until(lambda: client.sent > before + MANY, GETS_ON_MS, "its client gets on with the new leader")


@pytest.mark.parametrize("seed", SEEDS)
def test_it_gets_on(seed: int) -> None:
    a_client_of_a_broker_that_is_cut_off(seed)


def test_if_it_is_not_sent_away_it_does_not() -> None:
    is_sure = patch.object(leadership_proofs, "DOUBT_MS", 1 << 40)
    with is_sure, pytest.raises(ViolationError, match="its client gets on"):
        a_client_of_a_broker_that_is_cut_off(0)
