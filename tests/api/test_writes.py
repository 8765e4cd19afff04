"""Requests that change the keeper, when its answer is lost, and when another broker was faster."""

import pytest
from tests.broker.controllers import Controllers

from ottla.base.errors import ErrorCode
from ottla.base.ids import ZERO_UUID
from ottla.controller import znodes
from ottla.wire.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

LOST = pytest.mark.parametrize("is_written", [True, False], ids=["written", "not written"])


def create(name: str, factor: int = 2) -> CreateTopicsRequest:
    topic = CreatableTopic(name=name, num_partitions=2, replication_factor=factor)
    return CreateTopicsRequest(topics=[topic])


def delete(name: str) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=name, topic_id=ZERO_UUID)], timeout_ms=1000)


def grow(name: str, count: int) -> CreatePartitionsRequest:
    topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
    return CreatePartitionsRequest(topics=[topic], timeout_ms=1000, validate_only=False)


@LOST
def test_a_topic_is_created_though_the_answer_was_lost(is_written: bool) -> None:
    cluster = Controllers(3)
    cluster.keeper.losing = [is_written]
    (topic,) = cluster.ask(2, create("t")).answer.topics
    assert topic.error_code == ErrorCode.NONE
    assert cluster.brokers[3].image.topics["t"].id == topic.topic_id


@LOST
def test_a_topic_is_deleted_though_the_answer_was_lost(is_written: bool) -> None:
    cluster = Controllers(3)
    cluster.ask(2, create("t"))
    cluster.keeper.losing = [is_written]
    (topic,) = cluster.ask(2, delete("t")).answer.responses
    assert topic.error_code == ErrorCode.NONE
    assert "t" not in cluster.brokers[3].image.topics
    assert not any("/t" in path.replace("/topics", "") for path in cluster.keeper.nodes), "nothing is left"


@LOST
def test_a_topic_grows_though_the_answer_was_lost(is_written: bool) -> None:
    cluster = Controllers(3)
    cluster.ask(2, create("t"))
    cluster.keeper.losing = [is_written]
    (topic,) = cluster.ask(2, grow("t", 5)).answer.results
    assert topic.error_code == ErrorCode.NONE
    assert len(cluster.brokers[1].image.topics["t"].states) == 5


@LOST
def test_configs_change_though_the_answer_was_lost(is_written: bool) -> None:
    cluster = Controllers(3)
    cluster.ask(2, create("t"))
    cluster.keeper.losing = [is_written]
    config = AlterableConfig(name="retention.ms", value="5")
    resource = AlterConfigsResource(resource_type=2, resource_name="t", configs=[config])
    (answer,) = cluster.ask(
        3, AlterConfigsRequest(resources=[resource], validate_only=False)
    ).answer.responses
    assert answer.error_code == ErrorCode.NONE
    assert cluster.brokers[1].image.topic_config("t") == {"retention.ms": "5"}


@LOST
def test_no_producer_id_is_given_twice_though_the_answer_was_lost(is_written: bool) -> None:
    cluster = Controllers(3)
    cluster.keeper.losing = [is_written]
    request = InitProducerIdRequest(transaction_timeout_ms=1)
    ids = [cluster.ask(id, request).answer.producer_id for id in (1, 2, 3, 1)]
    assert len(set(ids)) == 4


@LOST
def test_a_topic_is_made_by_asking_for_it_though_the_answer_was_lost(is_written: bool) -> None:
    cluster = Controllers(3)
    cluster.keeper.losing = [is_written]
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=True)
    (topic,) = cluster.ask(3, request).answer.topics
    assert (topic.error_code, len(topic.partitions)) == (ErrorCode.NONE, 1)


def test_a_keeper_that_never_answers_is_given_up() -> None:
    cluster = Controllers(3)
    cluster.keeper.losing = [False] * 100
    (topic,) = cluster.ask(2, create("t")).answer.topics
    assert topic.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_any_broker_creates_topics_and_new_replicas_are_in_sync() -> None:
    cluster = Controllers(3)
    for broker in (1, 2, 3):
        cluster.ask(broker, create(f"t{broker}", factor=3))
        state = cluster.state(f"t{broker}")
        image = cluster.brokers[broker].image
        assert set(state.isr) == {1, 2, 3}
        assert state.isr_epochs == tuple(image.brokers[one].epoch for one in state.isr)


def test_replicas_are_not_placed_on_a_broker_about_to_stop_if_others_are_enough() -> None:
    cluster = Controllers(3)
    cluster.brokers[2].begin_stop(cluster.now_ms)
    cluster.carry_out()
    cluster.ask(1, create("t", factor=2))
    placed = cluster.brokers[1].image.topics["t"].assignment.values()
    assert all(set(replicas) == {1, 3} for replicas in placed)
    cluster.ask(1, create("u", factor=3))
    assert set(cluster.state("u").isr) == {1, 3}, "it is a replica, and not in sync"


def test_a_dead_broker_gets_no_replica_and_is_not_counted() -> None:
    cluster = Controllers(3)
    cluster.die(2)
    (topic,) = cluster.ask(1, create("t", factor=3)).answer.topics
    assert topic.error_code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_topic_that_grows_while_an_isr_changes_keeps_both() -> None:
    cluster = Controllers(3)
    cluster.create("t", (2, 3))
    cluster.blind.add(1)
    before = cluster.state("t")
    cluster.ask(2, grow("t", 2))
    cluster.blind.clear()
    cluster.brokers[1].image.brokers.pop(3)
    cluster.brokers[1].controller_writes.on_tick(cluster.now_ms + 10_000)
    cluster.carry_out()
    assert cluster.state("t") == before, "decided on old knowledge, so it was refused"
    cluster.brokers[1].open(cluster.keeper.load(), cluster.now_ms)
    cluster.tick(10_000)
    topic = cluster.brokers[1].image.topics["t"]
    assert sorted(topic.states) == [0, 1]
    assert znodes.state_path("t") in cluster.keeper.nodes
