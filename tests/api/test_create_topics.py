"""CreateTopics: new topics with counts or a replica assignment, and configs."""

import pytest
from tests.api.asking import create, new_topic
from tests.api.harness import Client, Machine

from ottla.api.writes import ATTEMPTS_MAX
from ottla.base.errors import ErrorCode
from ottla.base.ids import ZERO_UUID
from ottla.broker.config_entries import DEFAULT_CONFIG, DYNAMIC_TOPIC_CONFIG, STATIC_BROKER_CONFIG
from ottla.broker.effects import WriteNodes
from ottla.controller.keeper import Put, Refused
from ottla.controller.topics import PARTITIONS_PER_REQUEST_MAX
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)


def make(
    client: Client, *topics: CreatableTopic, version: int = 7, validate_only: bool = False
) -> dict[str, CreatableTopicResult]:
    request = CreateTopicsRequest(topics=list(topics), validate_only=validate_only)
    return {result.name: result for result in client.send(request, version).topics}


def code(*topics: CreatableTopic, **properties: str) -> int:
    machine = Machine({key.replace("_", "."): value for key, value in properties.items()})
    (result,) = make(machine.client(), *topics).values()
    if result.error_code:
        assert machine.broker.image.topics == {}
        assert result.error_message
        assert (result.topic_id, result.num_partitions, result.configs) == (ZERO_UUID, -1, None)
    error: int = result.error_code
    return error


def assigned(
    name: str, *replicas: tuple[int, list[int]], partitions: int = -1, replication: int = -1
) -> CreatableTopic:
    topic = new_topic(name, partitions, replication)
    topic.assignments = [
        CreatableReplicaAssignment(partition_index=index, broker_ids=brokers) for index, brokers in replicas
    ]
    return topic


def test_a_new_topic_is_described_in_the_answer_and_can_be_used_at_once() -> None:
    machine = Machine({"log.retention.hours": "1"})
    client = machine.client()
    result = make(client, new_topic("t", 3, 1, segment_bytes="1024"))["t"]
    topic = machine.broker.image.topics["t"]
    assert (result.error_code, result.error_message) == (ErrorCode.NONE, None)
    assert (result.topic_id, result.num_partitions, result.replication_factor) == (topic.id, 3, 1)
    assert [str(id) for id in machine.broker.partitions] == ["t-0", "t-1", "t-2"]
    configs = {one.name: (one.value, one.config_source) for one in result.configs or []}
    assert configs["segment.bytes"] == ("1024", DYNAMIC_TOPIC_CONFIG)
    assert configs["retention.ms"] == ("3600000", STATIC_BROKER_CONFIG)
    assert configs["cleanup.policy"] == ("delete", DEFAULT_CONFIG)
    assert list(configs) == sorted(configs)


def test_minus_one_takes_the_brokers_defaults() -> None:
    machine = Machine({"num.partitions": "4"})
    result = make(machine.client(), new_topic("t"))["t"]
    assert (result.num_partitions, result.replication_factor) == (4, 1)


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "a/b", "ä", "x" * 250, "a\n"])
def test_a_name_that_is_not_legal(name: str) -> None:
    assert code(new_topic(name)) == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_the_longest_legal_name() -> None:
    assert code(new_topic("x" * 249)) == ErrorCode.NONE


@pytest.mark.parametrize("count", [0, -2])
def test_counts_must_be_positive(count: int) -> None:
    assert code(new_topic("t", partitions=count)) == ErrorCode.INVALID_PARTITIONS
    assert code(new_topic("t", replication=count)) == ErrorCode.INVALID_REPLICATION_FACTOR


def test_more_replicas_than_brokers() -> None:
    assert code(new_topic("t", replication=2)) == ErrorCode.INVALID_REPLICATION_FACTOR
    assert code(new_topic("t"), default_replication_factor="3") == ErrorCode.INVALID_REPLICATION_FACTOR


def test_more_partitions_than_one_request_may_make() -> None:
    assert code(new_topic("t", PARTITIONS_PER_REQUEST_MAX + 1)) == ErrorCode.POLICY_VIOLATION


def test_configs_are_checked() -> None:
    assert code(new_topic("t", no_such_key="1")) == ErrorCode.INVALID_CONFIG
    assert code(new_topic("t", retention_ms="soon")) == ErrorCode.INVALID_CONFIG
    assert code(new_topic("t", cleanup_policy="burn")) == ErrorCode.INVALID_CONFIG
    null = new_topic("t")
    null.configs = [CreatableTopicConfig(name="retention.ms", value=None)]
    assert code(null) == ErrorCode.INVALID_CONFIG
    twice = new_topic("t")
    twice.configs = [CreatableTopicConfig(name="retention.ms", value=value) for value in "12"]
    assert code(twice) == ErrorCode.INVALID_REQUEST


def test_replicas_spelled_out() -> None:
    assert code(assigned("t", (0, [1]), (1, [1]))) == ErrorCode.NONE
    assert code(assigned("t", (0, [1]), partitions=1)) == ErrorCode.INVALID_REQUEST
    assert code(assigned("t", (0, [1]), replication=1)) == ErrorCode.INVALID_REQUEST
    assert code(assigned("t", (0, [1]), (0, [1]))) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert code(assigned("t", (0, [1]), (2, [1]))) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert code(assigned("t", (0, [7]))) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert code(assigned("t", (0, []))) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_taken_name_and_one_that_would_share_a_metric_with_another() -> None:
    client = Machine().client()
    make(client, new_topic("a.b"))
    results = make(client, new_topic("a.b"), new_topic("a_b"), new_topic("ab"))
    assert {name: one.error_code for name, one in results.items()} == {
        "a.b": ErrorCode.TOPIC_ALREADY_EXISTS,
        "a_b": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "ab": ErrorCode.NONE,
    }


def test_a_name_twice_in_one_request_is_not_made_at_all() -> None:
    machine = Machine()
    results = make(machine.client(), new_topic("twice"), new_topic("once"), new_topic("twice"))
    assert {name: one.error_code for name, one in results.items()} == {
        "twice": ErrorCode.INVALID_REQUEST,
        "once": ErrorCode.NONE,
    }
    assert list(machine.broker.image.topics) == ["once"]


def test_validate_only_answers_and_makes_nothing() -> None:
    machine = Machine()
    results = make(machine.client(), new_topic("t", 2), new_topic("a b"), validate_only=True)
    assert {name: one.error_code for name, one in results.items()} == {
        "t": ErrorCode.NONE,
        "a b": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
    assert results["t"].num_partitions == 2
    assert machine.broker.image.topics == {}


def test_the_answer_waits_for_the_keeper_or_times_out() -> None:
    machine = Machine()
    client = machine.client()
    machine.hold(WriteNodes)
    pending = client.ask(CreateTopicsRequest(topics=[new_topic("t"), new_topic("a b")], timeout_ms=100))
    assert pending.answer is None
    machine.pass_time(100)
    codes = {one.name: one.error_code for one in pending.answer.topics}
    assert codes == {"t": ErrorCode.REQUEST_TIMED_OUT, "a b": ErrorCode.INVALID_TOPIC_EXCEPTION}
    machine.release()
    assert list(machine.broker.image.topics) == ["t"], "it was on its way, and arrives"


def test_of_two_who_race_for_a_name_one_gets_it() -> None:
    machine = Machine()
    machine.hold(WriteNodes)
    first = machine.client().ask(CreateTopicsRequest(topics=[new_topic("t", 1)]))
    second = machine.client().ask(CreateTopicsRequest(topics=[new_topic("t", 2)]))
    machine.release()
    assert first.answer.topics[0].error_code == ErrorCode.NONE
    assert second.answer.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert len(machine.broker.image.topics["t"].assignment) == 1


def test_a_new_controller_epoch_makes_the_plan_anew() -> None:
    machine = Machine()
    machine.hold(WriteNodes)
    pending = machine.client().ask(CreateTopicsRequest(topics=[new_topic("t")]))
    machine.write(Put("/controller_epoch", b"2"))
    machine.release()
    result = pending.answer.topics[0]
    assert (result.error_code, result.topic_id) == (ErrorCode.NONE, machine.broker.image.topics["t"].id)


def test_a_keeper_that_always_refuses_is_not_asked_for_ever() -> None:
    machine = Machine()
    asked = []
    machine.keeper.write = lambda *write: (asked.append(write), ([], Refused("/x", "no")))[1]  # type: ignore[method-assign]
    result = machine.client().send(CreateTopicsRequest(topics=[new_topic("t")])).topics[0]
    assert (result.error_code, result.error_message) == (ErrorCode.UNKNOWN_SERVER_ERROR, "no")
    assert len(asked) == ATTEMPTS_MAX


def test_an_empty_request_is_answered() -> None:
    assert make(Machine().client()) == {}


def test_ids_are_never_the_same() -> None:
    client = Machine().client()
    assert create(client, "a") != create(client, "b")


def test_the_limit_of_partitions_holds_for_all_topics_of_a_request_together() -> None:
    half = PARTITIONS_PER_REQUEST_MAX // 2
    topics = [new_topic("a", half), new_topic("b", half), new_topic("c")]
    answer = Machine().client().send(CreateTopicsRequest(topics=topics, validate_only=True))
    assert {topic.error_code for topic in answer.topics} == {ErrorCode.POLICY_VIOLATION}
    answer = Machine().client().send(CreateTopicsRequest(topics=topics[:2], validate_only=True))
    assert {topic.error_code for topic in answer.topics} == {ErrorCode.NONE}
