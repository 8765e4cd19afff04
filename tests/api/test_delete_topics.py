"""DeleteTopics: by name, or by id from v6. And CreatePartitions, the other change of a topic's shape."""

import pytest
from tests.api.asking import batch, create, fetch, produce, values
from tests.api.harness import Client, Machine

from ottla.base.errors import ErrorCode
from ottla.base.ids import ZERO_UUID
from ottla.broker.effects import WriteNodes
from ottla.controller.topics import PARTITIONS_PER_REQUEST_MAX
from ottla.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState


def by_name(*names: str) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topic_names=list(names), timeout_ms=100)


def states(*topics: tuple[str | None, bytes]) -> DeleteTopicsRequest:
    asked = [DeleteTopicState(name=name, topic_id=topic_id) for name, topic_id in topics]
    return DeleteTopicsRequest(topics=asked, timeout_ms=100)


@pytest.mark.parametrize("version", range(1, 7))
def test_a_topic_is_deleted_by_name(version: int) -> None:
    machine = Machine()
    client = machine.client()
    create(client, "t", partitions=2, retention_ms="1000")
    request = by_name("t", "nowhere") if version < 6 else states(("t", ZERO_UUID), ("nowhere", ZERO_UUID))
    gone, unknown = client.send(request, version).responses
    assert (gone.name, gone.error_code) == ("t", ErrorCode.NONE)
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    image = machine.broker.image
    assert (image.topics, image.topic_configs, machine.broker.partitions, machine.broker.store.logs) == (
        {},
        {},
        {},
        {},
    )
    assert not [path for path in machine.keeper.nodes if "/t" in path.removeprefix("/brokers/topics")]


def test_from_v6_a_topic_is_deleted_by_id_and_the_answer_names_it() -> None:
    machine = Machine()
    client = machine.client()
    topic_id = create(client, "t")
    gone, unknown = client.send(states((None, topic_id), (None, b"?" * 16))).responses
    assert (gone.name, gone.topic_id, gone.error_code) == ("t", topic_id, ErrorCode.NONE)
    assert (unknown.name, unknown.topic_id, unknown.error_code) == (
        None,
        b"?" * 16,
        ErrorCode.UNKNOWN_TOPIC_ID,
    )
    assert unknown.error_message


def test_two_ids_that_are_unknown_are_both_just_unknown() -> None:
    answers = Machine().client().send(states((None, b"1" * 16), (None, b"2" * 16))).responses
    assert [one.error_code for one in answers] == [ErrorCode.UNKNOWN_TOPIC_ID] * 2


def test_a_name_and_an_id_together_or_neither_is_refused() -> None:
    machine = Machine()
    client = machine.client()
    topic_id = create(client, "t")
    answers = client.send(states(("t", topic_id), (None, ZERO_UUID))).responses
    assert [one.error_code for one in answers] == [ErrorCode.INVALID_REQUEST] * 2
    assert list(machine.broker.image.topics) == ["t"]


def test_a_topic_given_twice_is_not_deleted() -> None:
    machine = Machine()
    client = machine.client()
    topic_id = create(client, "t")
    assert [one.error_code for one in client.send(by_name("t", "t"), 5).responses] == [
        ErrorCode.INVALID_REQUEST
    ] * 2
    answers = client.send(states((None, topic_id), (None, topic_id))).responses
    assert [one.error_code for one in answers] == [ErrorCode.INVALID_REQUEST] * 2
    assert list(machine.broker.image.topics) == ["t"]


@pytest.mark.parametrize(
    ("version", "code"), [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)]
)
def test_deletion_may_be_forbidden(version: int, code: ErrorCode) -> None:
    machine = Machine({"delete.topic.enable": "false"})
    client = machine.client()
    create(client, "t")
    assert client.send(by_name("t"), version).responses[0].error_code == code


def test_a_topic_made_again_is_empty_and_has_a_new_id() -> None:
    machine = Machine()
    client = machine.client()
    old = create(client, "t")
    produce(client, "t", batch("old"))
    client.send(by_name("t"), 5)
    assert create(client, "t") != old
    assert values(fetch(client, "t")) == []


def test_the_folder_goes_after_the_delay() -> None:
    machine = Machine()
    client = machine.client()
    create(client, "t", file_delete_delay_ms="5000")
    client.send(by_name("t"), 5)
    (left,) = (path for path in machine.disk.folders if "t-0" in path)
    assert left.endswith("-delete")
    machine.pass_time(4_999)
    assert left in machine.disk.folders
    machine.pass_time(1)
    assert left not in machine.disk.folders


def test_of_two_who_race_to_delete_one_finds_nothing_left() -> None:
    machine = Machine()
    create(machine.client(), "t")
    machine.hold(WriteNodes)
    pending = [machine.client().ask(by_name("t"), 5) for _ in range(2)]
    machine.release()
    codes = [one.answer.responses[0].error_code for one in pending]
    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_keeper_that_does_not_answer_is_a_timeout() -> None:
    machine = Machine()
    client = machine.client()
    create(client, "t")
    machine.hold(WriteNodes)
    pending = client.ask(by_name("t"), 5)
    machine.pass_time(100)
    assert pending.answer.responses[0].error_code == ErrorCode.REQUEST_TIMED_OUT


# CreatePartitions


def grow(
    client: Client,
    *wanted: tuple[str, int],
    validate_only: bool = False,
    assignments: list[list[int]] | None = None,
) -> list[int]:
    given = (
        None if assignments is None else [CreatePartitionsAssignment(broker_ids=one) for one in assignments]
    )
    topics = [CreatePartitionsTopic(name=name, count=count, assignments=given) for name, count in wanted]
    request = CreatePartitionsRequest(topics=topics, timeout_ms=100, validate_only=validate_only)
    answer = client.send(request)
    assert [one.name for one in answer.results] == [name for name, _ in wanted]
    return [one.error_code for one in answer.results]


def test_a_topic_gets_more_partitions_and_keeps_its_records() -> None:
    machine = Machine()
    client = machine.client()
    create(client, "t")
    produce(client, "t", batch("a"))
    assert grow(client, ("t", 3)) == [ErrorCode.NONE]
    assert [str(id) for id in machine.broker.partitions] == ["t-0", "t-1", "t-2"]
    assert values(fetch(client, "t")) == ["a"]
    assert values(fetch(client, "t", partition=2)) == []
    assert grow(client, ("t", 5), assignments=[[1], [1]]) == [ErrorCode.NONE]


@pytest.mark.parametrize(
    ("count", "assignments", "code"),
    [
        (2, None, ErrorCode.INVALID_PARTITIONS),
        (1, None, ErrorCode.INVALID_PARTITIONS),
        (-1, None, ErrorCode.INVALID_PARTITIONS),
        (3 + PARTITIONS_PER_REQUEST_MAX, None, ErrorCode.POLICY_VIOLATION),
        (3, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (3, [[9]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (3, [[]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (3, [[1, 2]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_growth_that_makes_no_sense(count: int, assignments: list[list[int]] | None, code: ErrorCode) -> None:
    client = Machine().client()
    create(client, "t", partitions=2)
    assert grow(client, ("t", count), assignments=assignments) == [code]


def test_unknown_topics_and_names_given_twice() -> None:
    machine = Machine()
    client = machine.client()
    create(client, "t")
    assert grow(client, ("nowhere", 2)) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert grow(client, ("t", 2), ("t", 3)) == [ErrorCode.INVALID_REQUEST] * 2
    assert len(machine.broker.partitions) == 1


def test_validate_only_changes_nothing() -> None:
    machine = Machine()
    client = machine.client()
    create(client, "t")
    assert grow(client, ("t", 2), validate_only=True) == [ErrorCode.NONE]
    assert grow(client, ("t", 1), validate_only=True) == [ErrorCode.INVALID_PARTITIONS]
    assert len(machine.broker.partitions) == 1


def test_of_two_who_race_to_grow_the_second_plans_on_what_the_first_made() -> None:
    machine = Machine()
    create(machine.client(), "t")
    machine.hold(WriteNodes)
    counts = (2, 3, 3)
    pending = [
        machine.client().ask(
            CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name="t", count=count, assignments=None)],
                timeout_ms=100,
                validate_only=False,
            )
        )
        for count in counts
    ]
    machine.release()
    codes = [one.answer.results[0].error_code for one in pending]
    assert codes == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.INVALID_PARTITIONS]
    assert len(machine.broker.partitions) == 3
