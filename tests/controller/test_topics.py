"""Decisions about topics, from a request to keeper operations."""

import pytest
from tests.support.endpoints import plaintext

from ottla.base.errors import ApiError, ErrorCode
from ottla.controller import znodes
from ottla.controller.image import Image, TopicChanged, TopicConfigChanged, TopicDeleted
from ottla.controller.keeper import Check, Create, Delete, NodeChanged, Operation, Put
from ottla.controller.topics import (
    PARTITIONS_PER_REQUEST_MAX,
    NewTopic,
    PlannedTopic,
    plan_deletion,
    plan_partitions,
    plan_reelection,
    plan_topic,
)
from ottla.log.config import LogConfig

ID = bytes(range(16))


def cluster(*brokers: int) -> Image:
    image = Image()
    for broker in brokers:
        image.apply(
            NodeChanged(f"/brokers/ids/{broker}", znodes.broker_node(plaintext("localhost", 9092), None), 0)
        )
    image.apply(NodeChanged("/controller_epoch", b"3", 7))
    return image


def plan(image: Image, new: NewTopic) -> PlannedTopic:
    return plan_topic(image, new, ID, LogConfig(), partitions=2, replication=1)


def write(image: Image, operations: list[Operation]) -> list[object]:
    """What the keeper would do, without conditions."""
    changes: list[object] = []
    for operation in operations:
        if isinstance(operation, Create | Put):
            changes += image.apply(NodeChanged(operation.path, operation.data, 0))
        elif isinstance(operation, Delete):
            changes += image.apply(NodeChanged(operation.path, None, 0))
    return changes


def refusal(image: Image, new: NewTopic) -> ErrorCode:
    with pytest.raises(ApiError) as refused:
        plan(image, new)
    return refused.value.code


def test_a_new_topic_takes_the_defaults_and_is_fenced_by_the_controllers_epoch() -> None:
    image = cluster(1)
    planned = plan(image, NewTopic(name="orders", configs={"retention.ms": "1000"}))
    operations = planned.operations(image)
    assert operations[0] == Check("/controller_epoch", 7)
    assert [operation.path for operation in operations[1:]] == [
        "/brokers/topics/orders",
        "/brokers/topics/orders/state",
        "/config/topics/orders",
    ]
    assert write(image, operations)[-2:] == [TopicChanged("orders"), TopicConfigChanged("orders")]
    topic = image.topics["orders"]
    assert (topic.id, sorted(topic.partitions())) == (ID, [0, 1])
    assert topic.partitions()[1].isr == (1,)
    assert image.topic_config("orders") == {"retention.ms": "1000"}
    assert image.topic_names[ID] == "orders"


def test_a_deleted_topic_leaves_nothing_in_the_image() -> None:
    image = cluster(1)
    write(image, plan(image, NewTopic(name="t", configs={"segment.bytes": "1024"})).operations(image))
    assert TopicDeleted("t") in write(image, plan_deletion(image, image.topics["t"]))
    assert (image.topics, image.topic_names, image.topic_configs) == ({}, {}, {})
    assert image.apply(NodeChanged("/brokers/topics/t", None, 0)) == [TopicDeleted("t")]
    assert image.apply(NodeChanged("/brokers/topics/t/state", b"{}", 0)) == []


@pytest.mark.parametrize(
    ("new", "code"),
    [
        (NewTopic(name=""), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic(name=".."), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic(name="a b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic(name="a\n"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic(name="x" * 250), ErrorCode.INVALID_TOPIC_EXCEPTION),
        (NewTopic(name="t", partitions=0), ErrorCode.INVALID_PARTITIONS),
        (NewTopic(name="t", partitions=PARTITIONS_PER_REQUEST_MAX + 1), ErrorCode.POLICY_VIOLATION),
        (NewTopic(name="t", replication_factor=0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic(name="t", replication_factor=2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic(name="t", configs={"no.such.key": "1"}), ErrorCode.INVALID_CONFIG),
        (NewTopic(name="t", configs={"retention.ms": "soon"}), ErrorCode.INVALID_CONFIG),
        (NewTopic(name="t", configs={"retention.ms": None}), ErrorCode.INVALID_CONFIG),
        (NewTopic(name="t", partitions=1, assignment={0: [1]}), ErrorCode.INVALID_REQUEST),
        (NewTopic(name="t", assignment={1: [1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic(name="t", assignment={0: []}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic(name="t", assignment={0: [1, 1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic(name="t", assignment={0: [9]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_a_broken_rule_has_kafkas_code(new: NewTopic, code: ErrorCode) -> None:
    assert refusal(cluster(1), new) == code


def test_a_taken_name_and_a_colliding_one_are_refused() -> None:
    image = cluster(1)
    write(image, plan(image, NewTopic(name="a.b")).operations(image))
    assert refusal(image, NewTopic(name="a.b")) == ErrorCode.TOPIC_ALREADY_EXISTS
    assert refusal(image, NewTopic(name="a_b")) == ErrorCode.INVALID_TOPIC_EXCEPTION
    plan(image, NewTopic(name="ab"))
    plan(image, NewTopic(name="a_c"))


def test_replicas_can_be_spelled_out() -> None:
    planned = plan(cluster(1, 2), NewTopic(name="t", assignment={0: [2, 1], 1: [1, 2]}))
    assert (planned.assignment, planned.replication_factor) == ({0: (2, 1), 1: (1, 2)}, 2)


def test_a_topic_grows_and_keeps_the_states_it_has() -> None:
    image = cluster(1)
    write(image, plan(image, NewTopic(name="t", partitions=1)).operations(image))
    operations, added = plan_partitions(image, image.topics["t"], 3, None)
    assert added == 2
    write(image, operations)
    assert sorted(image.topics["t"].partitions()) == [0, 1, 2]
    operations, added = plan_partitions(image, image.topics["t"], 4, [[1]])
    assert added == 1


@pytest.mark.parametrize(
    ("count", "assignments", "code"),
    [
        (1, None, ErrorCode.INVALID_PARTITIONS),
        (2, None, ErrorCode.INVALID_PARTITIONS),
        (3, [[1], [1]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (3, [[5]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (3 + PARTITIONS_PER_REQUEST_MAX, None, ErrorCode.POLICY_VIOLATION),
    ],
)
def test_growth_that_makes_no_sense_is_refused(
    count: int, assignments: list[list[int]] | None, code: ErrorCode
) -> None:
    image = cluster(1)
    write(image, plan(image, NewTopic(name="t")).operations(image))
    with pytest.raises(ApiError) as refused:
        plan_partitions(image, image.topics["t"], count, assignments)
    assert refused.value.code == code


def test_new_partitions_have_as_many_replicas_as_the_old() -> None:
    image = cluster(1, 2)
    write(image, plan(image, NewTopic(name="t", partitions=1, replication_factor=2)).operations(image))
    with pytest.raises(ApiError) as refused:
        plan_partitions(image, image.topics["t"], 2, [[1]])
    assert refused.value.code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    plan_partitions(image, image.topics["t"], 2, [[2, 1]])


def test_partitions_with_different_numbers_of_replicas_are_refused() -> None:
    assert (
        refusal(cluster(1, 2), NewTopic(name="t", assignment={0: [1], 1: [1, 2]}))
        == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    )


def test_a_topic_that_was_found_on_disk_begins_after_the_epochs_it_has_seen() -> None:
    image = cluster(1)
    found = PlannedTopic(name="t", id=ID, assignment={0: (1,), 1: (1,)}, configs={}, epochs={0: 8})
    write(image, found.operations(image))
    assert {p: state.leader_epoch for p, state in image.topics["t"].partitions().items()} == {0: 8, 1: 0}


def test_a_broker_goes_on_leading_what_it_led_in_the_next_epoch() -> None:
    image = cluster(1, 2)
    write(image, plan(image, NewTopic(name="t", assignment={0: [1, 2], 1: [2, 1]})).operations(image))
    assert plan_reelection(image, image.topics["t"], 3) == []
    write(image, plan_reelection(image, image.topics["t"], 1))
    states = image.topics["t"].partitions()
    assert {p: (state.leader, state.leader_epoch) for p, state in states.items()} == {0: (1, 1), 1: (2, 0)}


def test_configs_that_somebody_left_behind_are_written_over() -> None:
    image = cluster(1)
    image.apply(NodeChanged("/config/topics/t", znodes.config_node({"flush.ms": "1"}), 5))
    operations = plan(image, NewTopic(name="t")).operations(image)
    assert operations[-1] == Put("/config/topics/t", znodes.config_node({}), 5)
