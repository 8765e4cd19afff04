"""What the controller wants written, and where leaders belong."""

from random import Random

import pytest
from tests.controller.worlds import World

from ottla.base.errors import ApiError, ErrorCode
from ottla.controller.election import repaired
from ottla.controller.keeper import NodeChanged
from ottla.controller.plan import elect_preferred, imbalanced, is_settled, plan, repair
from ottla.controller.znodes import topic_node, topic_path


def world() -> World:
    made = World(3)
    made.topic("a", {0: (1, 2), 1: (2, 3)})
    made.topic("b", {0: (3, 2)})
    return made


def test_only_what_should_change_is_planned() -> None:
    made = world()
    made.stop(1)
    found = plan(made.image, made.config)
    assert {topic: sorted(states) for topic, states in found.items()} == {"a": [0]}
    assert found["a"][0][:3] == (2, 1, (2,))


def test_a_plan_that_was_written_is_not_made_again() -> None:
    made = world()
    made.stop(2)
    made.settle()
    assert plan(made.image, made.config) == {}


def test_a_partition_that_waits_is_looked_at_and_left() -> None:
    made = world()
    made.stop(3)
    made.settle()
    made.stop(2)
    made.settle()
    assert not is_settled(made.image, made.image.topics["b"])
    assert plan(made.image, made.config) == {}


def test_a_topic_whose_states_are_not_known_yet_is_left_alone() -> None:
    made = world()
    made.image.apply(NodeChanged(topic_path("new"), topic_node(b"n" * 16, {0: (1,)}), 0))
    assert is_settled(made.image, made.image.topics["new"])
    made.image.topics["new"].adding = {0: (2,)}
    assert plan(made.image, made.config) == {}


def test_a_leader_outside_its_isr_is_put_right() -> None:
    made = world()
    topic = made.image.topics["b"]
    topic.states = {0: topic.states[0]._replace(leader=1)}
    assert plan(made.image, made.config)["b"][0].leader == 3


def test_a_state_without_an_assignment_is_nobodys() -> None:
    made = world()
    made.stop(3)
    del made.image.topics["b"].assignment[0]
    assert "b" not in plan(made.image, made.config)
    assert list(imbalanced(made.image, 0)) == []


def test_leaders_are_imbalanced_above_the_percentage_and_only_of_brokers_that_can_take_them() -> None:
    made = World(3)
    made.topic("t", dict.fromkeys(range(10), (1, 2)))
    states = made.image.topics["t"].states
    states[0] = states[0]._replace(leader=2)
    assert list(imbalanced(made.image, 10)) == []
    assert list(imbalanced(made.image, 9)) == [("t", 0)]
    made.image.topics["t"].adding = {0: (3,)}
    assert list(imbalanced(made.image, 9)) == [], "what moves is left alone"
    made.image.topics["t"].adding = {}
    made.announce_stop(1)
    assert list(imbalanced(made.image, 0)) == []
    made.stop(1)
    assert list(imbalanced(made.image, 0)) == []


def test_leaders_of_many_partitions_are_counted_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.controller.plan.COUNTED_MAX", 2)
    made = world()
    made.topic("c", {0: (1, 2)})
    for topic in made.image.topics.values():
        topic.states[0] = topic.states[0]._replace(leader=2)
    moved = [("a", 0), ("b", 0), ("c", 0)]
    assert list(imbalanced(made.image, 0)) == [None, None, *moved], "after topic a, and after b and c"


@pytest.mark.parametrize("seed", range(60))
def test_a_repair_of_what_is_not_settled_is_a_repair_of_all(seed: int) -> None:
    random = Random(seed)
    made = World(5)
    made.topic("t", {p: tuple(random.sample(range(1, 6), 3)) for p in range(8)}, min_insync_replicas=2)
    for _ in range(6):
        broker = random.randrange(1, 6)
        if broker not in made.image.brokers:
            made.start(broker)
        else:
            random.choice([made.stop, made.crash, made.restart, made.reset, made.announce_stop])(broker)
        made.suspected = set(random.sample(range(1, 6), random.choice([0, 0, 1])))
        if random.random() < 0.2 and broker in made.image.brokers:
            made.lose_directory(broker, ("t", random.randrange(8)))
        quick, thorough = made.draft("t"), made.draft("t")
        repair(quick)
        for partition in range(8):
            state, rule = repaired(thorough.states[partition], thorough.around(partition))
            thorough.put(partition, state, rule=rule)
        assert (quick.states, quick.alarms) == (thorough.states, thorough.alarms)
        made.write(quick.operations())


def test_a_first_replica_that_cannot_lead_is_not_preferred() -> None:
    made = world()
    made.propose("a", 0, 1)
    with pytest.raises(ApiError) as refused:
        elect_preferred(made.draft("a"), 0)
    assert refused.value.code == ErrorCode.ELECTION_NOT_NEEDED
    made.stop(1)
    made.settle()
    for partition, code in (
        (0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE),
        (7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ):
        with pytest.raises(ApiError) as refused:
            elect_preferred(made.draft("a"), partition)
        assert refused.value.code == code
