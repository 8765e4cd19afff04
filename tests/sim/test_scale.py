"""The model of a large cluster, small: what it does is right, and what it costs grows with the work.

`make scale` runs 100 brokers with 100,000 partitions; docs/scale.md has its figures.
"""

import pytest
from tests.sim.population import Costs, Population
from tests.sim.scale import LOOK_MS, measured, still

BROKERS, TOPICS, PARTITIONS = 10, 100, 10


@pytest.fixture(scope="module")
def population() -> Population:
    return Population(BROKERS, TOPICS, PARTITIONS)


def test_the_population_is_whole_again_after_deaths_and_a_rolling_restart(population: Population) -> None:
    phases = {phase.name: phase.costs for phase in measured(population, BROKERS)}
    assert population.out_of_sync() == 0
    leaders = population.leaders()
    assert set(leaders) == set(population.members)
    assert max(leaders.values()) <= 1.2 * min(leaders.values()), "leaders are where they belong"
    assert phases["a look at everything"].writes == 0, "who looks at a calm cluster writes nothing"
    assert phases[f"rolling restart of {BROKERS}"].elected >= TOPICS * PARTITIONS, "each moved"


def test_a_broker_that_dies_costs_a_write_of_each_topic_at_most_and_all_others_read_it_once(
    population: Population,
) -> None:
    population.costs = costs = Costs()
    population.die(BROKERS)
    topics = [topic for topic in population.image.topics.values() if topic.state_version > 0]
    assert costs.operations <= len(topics) + 2 * costs.writes, "but for the fence of each write"
    assert costs.reads == (len(topics) + 1) * (BROKERS - 1), "one read for each that lives"
    assert costs.writes <= TOPICS / 64 + 1, "many topics go in one write"
    population.come(BROKERS, is_clean=False)
    assert population.out_of_sync() == 0


def test_a_look_at_twice_as_many_partitions_is_cut_into_twice_as_many_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ottla.broker.controller_writes.LOOKED_MAX", 100)

    def steps(topics: int) -> int:
        population = Population(3, topics, 10)
        population.tick(LOOK_MS)
        return population.costs.steps

    assert steps(100) == pytest.approx(2 * steps(50), abs=4)
    assert steps(100) > 1_000 // 100


def test_what_is_there_is_told_in_lines(population: Population) -> None:
    lines = "\n".join(still(population))
    assert "315 nodes" in lines
    assert "Metadata of all topics" in lines
