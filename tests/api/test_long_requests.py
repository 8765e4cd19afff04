"""Requests with very many items, or long answers: in slices, once for what is named twice, within bounds."""

import gc
from typing import Any

import pytest
from tests.api.asking import create
from tests.api.harness import Client, Machine

from ottla.api import dispatch
from ottla.base.errors import ErrorCode
from ottla.base.ids import ZERO_UUID
from ottla.broker.effects import Close
from ottla.broker.slices import Slices
from ottla.wire.codec import encode
from ottla.wire.header import RequestHeader, encode_request_header
from ottla.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResource
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from ottla.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

MANY = 5_000
TOPIC, LATEST = 2, -1


def describe_configs(*names: str, keys: list[str] | None = None) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=keys)
            for name in names
        ]
    )


def list_offsets(*partitions: int) -> ListOffsetsRequest:
    asked = [ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in partitions]
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=asked)])


def unknown_names(count: int) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=f"nobody-knows-{at}") for at in range(count)]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False)


@pytest.fixture
def client() -> Client:
    client = Machine().client()
    create(client, "t")
    return client


# Named twice


def test_a_resource_is_described_once_with_the_keys_asked_for_either_time(client: Client) -> None:
    request = describe_configs("t", "t", keys=["retention.ms"])
    request.resources[1].configuration_keys = ["segment.bytes"]
    (result,) = client.send(request).results
    assert [config.name for config in result.configs] == ["retention.ms", "segment.bytes"]
    request.resources[1].configuration_keys = None
    (result,) = client.send(request).results
    assert len(result.configs) > 2


def test_offsets_of_a_partition_that_is_named_twice_are_not_listed(client: Client) -> None:
    (topic,) = client.send(list_offsets(0, 0)).topics
    assert [one.error_code for one in topic.partitions] == [ErrorCode.INVALID_REQUEST] * 2
    (topic,) = client.send(list_offsets(0)).topics
    assert [one.error_code for one in topic.partitions] == [ErrorCode.NONE]


def test_groups_are_described_and_their_coordinators_found_once(client: Client) -> None:
    consumer_groups = ConsumerGroupDescribeRequest(group_ids=["g"] * 3, include_authorized_operations=False)
    assert len(client.send(FindCoordinatorRequest(coordinator_keys=["g"] * 3)).coordinators) == 1
    assert len(client.send(DescribeGroupsRequest(groups=["g"] * 3)).groups) == 1
    assert len(client.send(consumer_groups).groups) == 1


def test_committed_offsets_are_answered_once(client: Client) -> None:
    client.send(FindCoordinatorRequest(coordinator_keys=["g"]))
    topic = OffsetFetchRequestTopics(name="t", partition_indexes=[0, 0, 1])
    group = OffsetFetchRequestGroup(group_id="g", topics=[topic])
    (answer,) = client.send(OffsetFetchRequest(groups=[group, group]), 9).groups
    assert [one.partition_index for one in answer.topics[0].partitions] == [0, 1]


def test_producers_epochs_and_deletions_are_answered_once(client: Client) -> None:
    producers = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0, 0])] * 2)
    assert [len(topic.partitions) for topic in client.send(producers).topics] == [1]
    epoch = OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=0)
    epochs = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="t", partitions=[epoch] * 2)])
    assert [len(topic.partitions) for topic in client.send(epochs).topics] == [1]
    records = DeleteRecordsPartition(partition_index=0, offset=0)
    deletion = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name="t", partitions=[records] * 2)], timeout_ms=1_000
    )
    assert [len(topic.partitions) for topic in client.send(deletion).topics] == [1]


# In slices


@pytest.mark.parametrize(
    "request_",
    [
        unknown_names(MANY),
        list_offsets(*range(MANY)),
        describe_configs(*(f"t{at}" for at in range(MANY))),
        DescribeGroupsRequest(groups=[f"group-{at:020}" for at in range(MANY)]),
        FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            topics=[
                FetchTopic(
                    topic="t",
                    partitions=[
                        FetchPartition(partition=at, fetch_offset=0, partition_max_bytes=1)
                        for at in range(MANY)
                    ],
                )
            ],
        ),
    ],
    ids=lambda request: type(request).__name__,
)
def test_a_long_request_lets_others_in_between(client: Client, request_: Any) -> None:
    machine, other = client.machine, client.machine.client()
    version = 12 if isinstance(request_, FetchRequest) else None
    client.send(FindCoordinatorRequest(coordinator_keys=["g"]))
    machine.hold(Slices)
    pending = client.ask(request_, version)
    slices = 0
    while pending.answer is None:
        slices += 1
        machine.broker.on_deadline(machine.now_ms)
        machine.carry_out()
        assert other.send(ApiVersionsRequest(), 0).api_keys
    assert slices > 3
    assert len(encode(pending.answer, version or request_.VERSIONS[1])) > MANY * 10


def test_a_client_that_hangs_up_ends_what_is_done_for_it(client: Client) -> None:
    machine = client.machine
    machine.hold(Slices)
    client.ask(unknown_names(MANY))
    machine.broker.on_deadline(machine.now_ms)
    client.close()
    assert machine.broker.next_deadline_ms() is None
    assert machine.broker.unsent_bytes == 0


def test_topics_that_a_client_asked_for_are_all_created_and_deleted_even_if_it_hangs_up() -> None:
    machine, names = Machine(), [f"topic-{number}" for number in range(300)]
    for request in (
        CreateTopicsRequest(
            topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names],
            timeout_ms=1000,
        ),
        DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in names], timeout_ms=1000
        ),
    ):
        client = machine.client()
        before = set(machine.broker.image.topics)
        machine.hold(Slices)
        client.ask(request)
        while before == set(machine.broker.image.topics):
            machine.broker.on_deadline(machine.now_ms)
            machine.carry_out()
        client.close()
        assert len(before ^ set(machine.broker.image.topics)) < 300
        machine.release()
        assert len(before ^ set(machine.broker.image.topics)) == 300


@pytest.mark.parametrize(
    "request_",
    [
        DeleteTopicsRequest(
            topics=[DeleteTopicState(name=f"t{number}", topic_id=ZERO_UUID) for number in range(MANY)],
            timeout_ms=1000,
        ),
        CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=f"t{number}", count=5) for number in range(MANY)],
            timeout_ms=1000,
            validate_only=False,
        ),
        AlterConfigsRequest(
            resources=[
                AlterConfigsResource(resource_type=TOPIC, resource_name=f"t{number}", configs=[])
                for number in range(MANY)
            ],
            validate_only=False,
        ),
    ],
    ids=lambda request: type(request).__name__,
)
def test_a_large_request_leaves_no_circle_of_objects_behind(client: Client, request_: Any) -> None:
    """To collect what is left of 100,000 items takes longer than others should wait."""
    client.send(request_)
    gc.collect()
    gc.disable()
    try:
        client.send(request_)
        client.pending = None
        assert gc.collect() < MANY
    finally:
        gc.enable()


def test_an_answer_is_not_kept_if_what_is_known_changed_while_it_was_made(client: Client) -> None:
    machine, other = client.machine, client.machine.client()
    request = unknown_names(100)
    machine.hold(Slices)
    pending = client.ask(request)
    assert pending.answer is None
    create(other, "nobody-knows-7")
    machine.release()
    assert len(pending.answer.topics) == 100
    found = [topic.name for topic in other.send(request).topics if not topic.error_code]
    assert found == ["nobody-knows-7"]


# Within bounds


def test_an_answer_that_gets_too_large_is_given_up(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "ANSWER_BYTES_MAX", 100_000)
    machine = client.machine
    machine.hold(Close)
    client.ask(unknown_names(20_000))
    (closed,) = machine.held
    assert isinstance(closed, Close)
    assert closed.reason == "the answer to Metadata has more than 100000 bytes; ask for less"
    assert machine.broker.unsent_bytes == 0


def test_a_large_request_that_is_malformed_closes_the_connection(client: Client) -> None:
    client.machine.hold(Close)
    header = encode_request_header(RequestHeader(3, 9, 1, "c"))
    whole = encode(unknown_names(4 * MANY), 9)
    assert client.raw(header + whole[: len(whole) // 2]) is dispatch.Silence.QUEUED
    client.machine.carry_out()
    (closed,) = client.machine.held
    assert isinstance(closed, Close)


def test_cached_answers_take_a_bounded_amount_of_memory(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "CACHED_ANSWERS_BYTES_MAX", 10_000)
    for at in range(50):
        names = [MetadataRequestTopic(name=f"{at:03}{name:0200}") for name in range(10)]
        client.send(MetadataRequest(topics=names, allow_auto_topic_creation=False))
        assert sum(map(len, client.machine.broker.answers.values())) <= 10_000
