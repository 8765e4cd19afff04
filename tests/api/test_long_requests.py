"""Requests with very many items, or long answers: in slices, once for what is named twice, within bounds."""

import gc
from typing import Any

import pytest
from tests.api.asking import BY_NAME, batch, begin_to_create, create, produce
from tests.api.harness import Client, Machine, Pending
from tests.support.brokers import jobs_waiting

from ottla.api import dispatch, offset_fetch
from ottla.base.errors import ErrorCode
from ottla.base.ids import ZERO_UUID, TopicPartition
from ottla.broker import kept_answers
from ottla.broker.effects import Close, Reply
from ottla.broker.leadership_proofs import DOUBT_MS
from ottla.broker.long_work import SHARE_US, Slices
from ottla.group.classic.group import ClassicGroup
from ottla.group.records import OffsetCommitValue
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
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from ottla.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.list_groups import ListGroupsRequest
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

MANY, WIDE = 5_000, 100
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


def fetch(count: int, *, max_bytes: int = 1, replica_id: int = -1) -> FetchRequest:
    partitions = [
        FetchPartition(partition=at, fetch_offset=0, partition_max_bytes=max_bytes) for at in range(count)
    ]
    return FetchRequest(
        replica_id=replica_id,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic="t", partitions=partitions)],
    )


def create_wide(client: Client) -> None:
    machine = client.machine
    create(client, "wide", WIDE)
    while len(machine.broker.store.logs) < WIDE:  # they are made a few at a time
        machine.pass_time(100)


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
        fetch(MANY),
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


def test_very_many_groups_are_looked_at_a_few_at_a_time(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine, looks = client.machine, list[str]()
    monkeypatch.setattr(offset_fetch, "_is_long", lambda _call, group: looks.append(group.group_id) or False)
    groups = [OffsetFetchRequestGroup(group_id=f"g{at}", topics=None) for at in range(MANY)]
    machine.hold(Slices)
    pending, most = client.ask(OffsetFetchRequest(groups=groups), 9), len(looks)
    while pending.answer is None:
        before = len(looks)
        machine.broker.on_deadline(machine.now_ms)
        machine.carry_out()
        most = max(most, len(looks) - before)
    assert (len(looks), most < MANY // 10) == (MANY, True)


def test_a_client_that_hangs_up_ends_what_is_done_for_it(client: Client) -> None:
    machine = client.machine
    machine.hold(Slices)
    client.ask(unknown_names(MANY))
    machine.broker.on_deadline(machine.now_ms)
    client.close()
    assert machine.broker.next_deadline_ms() is None
    assert machine.broker.allowance.unsent_bytes == 0


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


def test_a_follower_does_not_wait_for_the_large_requests_of_clients(client: Client) -> None:
    machine = client.machine
    machine.hold(Slices)
    for _ in range(20):
        machine.client().ask(unknown_names(20_000))
    follower = machine.client().as_broker(2)
    fetching = fetch(3_000, replica_id=2)
    pending = follower.ask(fetching, BY_NAME)
    for _ in range(200):
        machine.broker.on_deadline(machine.now_ms)
        machine.carry_out()
    assert pending.answer is not None
    assert len(jobs_waiting(machine.broker.slices)) > 10


def test_many_requests_in_one_round_take_a_share_of_it_and_a_small_one_passes_them(client: Client) -> None:
    machine = client.machine
    client.send(FindCoordinatorRequest(coordinator_keys=["g"]))
    machine.hold(Slices)
    machine.is_one_round = True
    slices = machine.broker.slices
    slices.spent_us = 0
    hostile = DescribeGroupsRequest(groups=[f"g{at:06}" for at in range(6_000)])
    before_us = slices.elapsed_us()
    for _ in range(300):
        machine.client().ask(hostile, 5)
    assert slices.elapsed_us() - before_us < 2 * SHARE_US
    assert sum(job.is_begun for job in jobs_waiting(slices)) < 10, "the others are bytes, and not decoded"
    honest = machine.client().ask(DescribeGroupsRequest(groups=[f"g{at}" for at in range(200)]), 5)
    rounds = 0
    while honest.answer is None:
        rounds += 1
        machine.broker.on_deadline(machine.now_ms)
        machine.carry_out()
    assert rounds < 60, f"{len(jobs_waiting(slices))} were before it"
    assert len(jobs_waiting(slices)) > 250


def test_small_fetches_of_a_large_session_take_a_share_of_the_round_too(client: Client) -> None:
    machine, slices = client.machine, client.machine.broker.slices
    create_wide(client)
    sessions = []
    for _ in range(30):
        opening = fetch(WIDE)
        opening.topics[0].topic, opening.session_epoch = "wide", 0
        one = machine.client()
        sessions.append((one, one.send(opening, BY_NAME).session_id))
    machine.hold(Slices)
    machine.is_one_round, slices.spent_us = True, 0
    pending = []
    for number, (one, session_id) in enumerate(sessions):
        slices.spent_us = 0 if number < 15 else SHARE_US
        asked = FetchRequest(max_wait_ms=0, min_bytes=0, session_id=session_id, session_epoch=1)
        pending.append(one.ask(asked, BY_NAME))
    assert all(one.answer is not None for one in pending[:15])
    assert all(one.answer is None for one in pending[15:]), "nothing is left of the round"
    small = machine.client().ask(fetch(1), BY_NAME)
    assert small.answer is not None, "what is about few partitions is answered as it comes"
    machine.release()
    assert all(one.answer is not None for one in pending)


@pytest.mark.parametrize("end", ["a record", "the deadline"])
def test_fetches_of_many_partitions_that_one_moment_ends_are_answered_in_turns(
    client: Client, end: str
) -> None:
    machine, slices = client.machine, client.machine.broker.slices
    create_wide(client)
    waiting = fetch(WIDE, max_bytes=1_000)
    waiting.topics[0].topic, waiting.max_wait_ms, waiting.min_bytes = "wide", 1_000, 1
    pending = [machine.client().ask(waiting, BY_NAME) for _ in range(30)]
    machine.hold(Slices)
    machine.is_one_round, slices.spent_us = True, SHARE_US
    if end == "a record":
        produce(client, "wide", batch("news"))
    else:
        machine.now_ms += 1_000
        machine.broker.waiting.on_tick(machine.now_ms)
        machine.carry_out()
    assert [one.answer for one in pending] == [None] * 30
    assert len(jobs_waiting(slices)) == 30
    machine.release()
    for one in pending:
        records = [part.records for topic in one.answer.responses for part in topic.partitions]
        assert any(records) == (end == "a record")
    assert machine.broker.waiting.parked == 0


# Doubt


def ask_all_topics(client: Client) -> Pending:
    """It is made in slices, which are held back."""
    for at in range(20):
        begin_to_create(client.machine.client(), f"many-{at:02}", 200)
    client.machine.broker.answers.clear()
    client.machine.hold(Slices)
    pending = client.ask(MetadataRequest(topics=None))
    assert pending.answer is None
    return pending


def unavailable(pending: Pending) -> int:
    return sum(bool(one.error_code) for topic in pending.answer.topics for one in topic.partitions)


def test_an_answer_that_comes_to_be_in_doubt_while_it_is_made_is_the_last_and_not_kept(
    client: Client,
) -> None:
    machine, proofs = client.machine, client.machine.broker.proofs
    pending = ask_all_topics(client)
    proofs.in_doubt.add(TopicPartition("many-19", 0))
    machine.release()
    assert unavailable(pending) == 1
    assert client.is_sent_away
    proofs.on_confirmed(machine.now_ms, machine.now_ms)
    other = machine.client()
    assert unavailable(other.ask(MetadataRequest(topics=None))) == 0
    assert not other.is_sent_away


def test_an_answer_is_not_kept_if_something_was_in_doubt_while_it_was_made(client: Client) -> None:
    machine, proofs = client.machine, client.machine.broker.proofs
    ask_all_topics(client)
    proofs.ask_for(machine.broker.partitions[TopicPartition("many-19", 0)], machine.now_ms, machine.now_ms)
    proofs.pump(machine.now_ms + DOUBT_MS)
    assert proofs.in_doubt
    proofs.on_confirmed(machine.now_ms + DOUBT_MS, machine.now_ms + DOUBT_MS)
    assert not proofs.is_awaited
    machine.release()
    assert machine.broker.answers == {}
    machine.client().ask(MetadataRequest(topics=None))
    assert len(machine.broker.answers) == 1


# Within bounds


def test_long_fetches_hold_the_records_of_few_at_a_time_and_those_are_counted(client: Client) -> None:
    machine = client.machine
    broker = machine.broker
    machine.hold(Slices, Reply)
    produce(client, "t", batch("x" * 900_000))
    for _ in range(30):
        machine.client().ask(fetch(1_001, max_bytes=2_000_000), BY_NAME)
    answered, peak = 0, 0
    while broker.slices.next_ms() is not None:
        broker.on_deadline(machine.now_ms)
        machine.carry_out()
        peak = max(peak, broker.allowance.unsent_bytes)
        for reply in machine.held:
            assert isinstance(reply, Reply)
            broker.allowance.unsent_bytes -= reply.unsent_bytes
            answered += 1
        machine.held.clear()
    assert answered == 30
    assert 900_000 < peak < 3 * 2 * 900_000
    assert broker.allowance.unsent_bytes == 0


def test_fetches_that_are_woken_together_share_what_may_be_unsent(client: Client) -> None:
    """Each was told when it came how much it may have, and none of it was unsent then."""
    machine = client.machine
    machine.properties["ottla.unsent.max.bytes"] = "2000000"
    machine.restart()
    client = machine.client()
    machine.hold(Reply)
    waiting = fetch(1, max_bytes=10_000_000)
    waiting.max_wait_ms, waiting.min_bytes = 1_000, 900_000
    for _ in range(40):
        assert machine.client().ask(waiting, BY_NAME).answer is None
    for _ in range(3):
        produce(client, "t", batch("x" * 250_000))
    assert machine.held == []
    produce(client, "t", batch("x" * 250_000))
    assert len(machine.held) == 40
    answers = [sum(map(len, reply.chunks)) for reply in machine.held if isinstance(reply, Reply)]
    assert sum(answers) == machine.broker.allowance.unsent_bytes < 2_000_000 + 1_100_000
    assert max(answers) > 900_000
    machine.release()
    assert machine.broker.allowance.unsent_bytes == 0


def test_a_fetch_of_many_partitions_that_waits_counts_as_held(client: Client) -> None:
    create_wide(client)
    waiting = fetch(WIDE)
    waiting.topics[0].topic = "wide"
    waiting.max_wait_ms, waiting.min_bytes = 1_000, 1
    pending = client.ask(waiting, BY_NAME)
    assert pending.answer is None
    assert client.machine.broker.waiting.held_bytes(client.number) > WIDE * 100


@pytest.mark.parametrize("kind", ["offsets", "groups", "folders"])
def test_small_requests_with_long_answers_hold_nothing_until_it_is_their_turn(
    client: Client, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = client.machine
    monkeypatch.setattr("ottla.api.describe_log_dirs.MANY", WIDE - 1)
    client.send(FindCoordinatorRequest(coordinator_keys=["g"]))
    shard = machine.broker.coordinators.groups.shard_of("g")
    if kind == "offsets":
        for at in range(3_000):
            shard.offsets.replay(
                "g", "t", at, OffsetCommitValue(offset=at, metadata="", commit_timestamp=1), -1
            )
    elif kind == "groups":
        for at in range(3_000):
            shard.groups[f"g{at:05}"] = ClassicGroup(f"g{at:05}", shard.config, wall_ms=1)
    else:
        create_wide(client)
    request, version = {
        "offsets": (OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)]), 9),
        "groups": (ListGroupsRequest(), 4),
        "folders": (DescribeLogDirsRequest(topics=None), 4),
    }[kind]
    machine.hold(Slices)
    asked = [machine.client().ask(request, version) for _ in range(10)]
    slices = machine.broker.slices
    assert len(slices.clients.large.waiting) == 10, "they wait for one of the places for large ones"
    machine.release()
    assert all(len(encode(pending.answer, version)) > 10 * WIDE for pending in asked)


def test_an_answer_that_gets_too_large_is_given_up(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "ANSWER_BYTES_MAX", 100_000)
    machine = client.machine
    machine.hold(Close)
    client.ask(unknown_names(20_000))
    (closed,) = machine.held
    assert isinstance(closed, Close)
    assert closed.reason == "the answer to Metadata has more than 100000 bytes; ask for less"
    assert machine.broker.allowance.unsent_bytes == 0


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
    monkeypatch.setattr(kept_answers, "KEPT_ANSWERS_BYTES_MAX", 10_000)
    for at in range(50):
        names = [MetadataRequestTopic(name=f"{at:03}{name:0200}") for name in range(10)]
        client.send(MetadataRequest(topics=names, allow_auto_topic_creation=False))
        assert sum(map(len, client.machine.broker.answers.values())) <= 10_000
