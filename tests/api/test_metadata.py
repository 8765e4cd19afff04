"""Metadata: brokers, topics, partitions and their leaders; a topic may be made by asking for it."""

import pytest
from tests.api.asking import create, lead
from tests.api.harness import CLUSTER_ID, Client, Machine
from tests.support.endpoints import plaintext

from ottla.base.errors import ErrorCode
from ottla.base.ids import ZERO_UUID
from ottla.broker.effects import WriteNodes
from ottla.controller import znodes
from ottla.controller.keeper import Create, Delete
from ottla.controller.registration import registration
from ottla.wire.messages.describe_cluster import DescribeClusterRequest
from ottla.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse


def about(*names: str, create: bool = True) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=create)


def codes(answer: MetadataResponse) -> dict[str | None, int]:
    return {topic.name: topic.error_code for topic in answer.topics}


def started(**properties: str) -> tuple[Machine, Client]:
    machine = Machine({key.replace("_", "."): value for key, value in properties.items()})
    return machine, machine.client()


@pytest.mark.parametrize("version", range(14))
def test_every_list_of_topics_in_every_version(version: int) -> None:
    _, client = started()
    create(client, "a")
    create(client, "b")
    empty = client.send(MetadataRequest(topics=[]), version)
    assert set(codes(empty)) == ({"a", "b"} if version == 0 else set())
    if version >= 1:
        assert set(codes(client.send(MetadataRequest(topics=None), version))) == {"a", "b"}
    assert codes(client.send(about("b"), version)) == {"b": ErrorCode.NONE}


def test_the_cluster_the_brokers_and_the_controller_are_named() -> None:
    _, client = started(broker_rack="r1")
    answer = client.send(MetadataRequest(topics=[]))
    assert (answer.cluster_id, answer.controller_id) == (CLUSTER_ID, 1)
    (broker,) = answer.brokers
    assert (broker.node_id, broker.host, broker.port, broker.rack) == (1, "localhost", 9092, "r1")


def test_a_topic_is_described_with_its_partitions() -> None:
    machine, client = started()
    topic_id = create(client, "t", partitions=2)
    lead(machine, "t", leader=1, epoch=3)
    (topic,) = client.send(about("t")).topics
    assert (topic.topic_id, topic.is_internal) == (topic_id, False)
    found = [
        (p.partition_index, p.leader_id, p.leader_epoch, p.replica_nodes, p.isr_nodes)
        for p in topic.partitions
    ]
    assert found == [(0, 1, 3, [1], [1]), (1, 1, 3, [1], [1])]


def test_partitions_that_are_alike_differ_in_what_is_their_own() -> None:
    machine, client = started()
    create(client, "t", partitions=5)
    states = machine.broker.image.topics["t"].states
    states[1] = states[1]._replace(leader_epoch=7)
    states[2] = states[2]._replace(leader=-1)
    states[3] = states[3]._replace(isr=())
    (topic,) = client.send(about("t")).topics
    epoch = states[0].leader_epoch
    assert [(p.partition_index, p.leader_id, p.leader_epoch, p.isr_nodes) for p in topic.partitions] == [
        (0, 1, epoch, [1]),
        (1, 1, 7, [1]),
        (2, -1, epoch, [1]),
        (3, 1, epoch, []),
        (4, 1, epoch, [1]),
    ]
    assert {p.partition_index for p in topic.partitions if p.error_code} == {2}


def test_a_partition_whose_leader_is_gone_has_none() -> None:
    machine, client = started()
    machine.give_up_the_seat()
    machine.write(
        *registration(2, plaintext("other", 9093), None),
        Create(znodes.topic_path("t"), znodes.topic_node(b"t" * 16, {0: (2, 1)})),
        Create(znodes.state_path("t"), znodes.state_node(1, {0: (2, 1, (2, 1))})),
    )
    assert client.send(about("t")).topics[0].partitions[0].leader_id == 2
    machine.write(Delete("/brokers/ids/2"))
    (part,) = client.send(about("t")).topics[0].partitions
    assert (part.error_code, part.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert (part.replica_nodes, part.isr_nodes, part.offline_replicas) == ([2, 1], [2, 1], [2])


def test_a_replica_whose_directory_failed_is_offline() -> None:
    machine, client = started()
    machine.give_up_the_seat()
    machine.write(
        *registration(2, plaintext("other", 9093), None),
        Create(znodes.topic_path("t"), znodes.topic_node(b"t" * 16, {0: (2, 1), 1: (2, 1)})),
        Create(znodes.state_path("t"), znodes.state_node(1, {0: (2, 1, (2, 1)), 1: (1, 1, (1, 2))})),
    )
    assert client.send(about("t")).topics[0].partitions[0].offline_replicas == []
    machine.write(Create("/brokers/offline/2", znodes.offline_node([("t", 0)]), ephemeral=True))
    one, other = client.send(about("t")).topics[0].partitions
    assert (one.error_code, one.offline_replicas) == (ErrorCode.LEADER_NOT_AVAILABLE, [2])
    assert (other.error_code, other.offline_replicas) == (ErrorCode.NONE, [])


@pytest.mark.parametrize("version", range(8, 14))
def test_whoever_asks_is_told_what_it_may_do_with_topics_and_the_cluster(version: int) -> None:
    client = Machine({"auto.create.topics.enable": "false"}).client()
    create(client, "t")
    names = [MetadataRequestTopic(name="t"), MetadataRequestTopic(name="not-there")]
    every, unknown = 0b1101_1111_1000, -(2**31)  # READ to DESCRIBE, DESCRIBE_CONFIGS and ALTER_CONFIGS
    for wanted in (True, False):
        asked = MetadataRequest(topics=names, include_topic_authorized_operations=wanted)
        asked.include_cluster_authorized_operations = wanted and version <= 10
        answer = client.send(asked, version)
        assert {one.topic_authorized_operations for one in answer.topics} == {every if wanted else unknown}
        of_cluster = answer.cluster_authorized_operations
        assert of_cluster == (0b1_1111_1010_0000 if wanted and version <= 10 else unknown)


def test_internal_topics_are_marked() -> None:
    _, client = started()
    create(client, "__share_group_state")
    assert client.send(about("__share_group_state")).topics[0].is_internal


# By id


def test_a_topic_is_found_by_its_id() -> None:
    _, client = started()
    topic_id = create(client, "t")
    asked = [
        MetadataRequestTopic(name=None, topic_id=topic_id),
        MetadataRequestTopic(name=None, topic_id=b"?" * 16),
    ]
    known, unknown = client.send(MetadataRequest(topics=asked)).topics
    assert (known.name, known.error_code) == ("t", ErrorCode.NONE)
    assert (unknown.name, unknown.topic_id, unknown.error_code) == (
        None,
        b"?" * 16,
        ErrorCode.UNKNOWN_TOPIC_ID,
    )


@pytest.mark.parametrize("version", [10, 11])
def test_before_v12_an_id_in_the_request_is_refused(version: int) -> None:
    _, client = started()
    topic_id = create(client, "t")
    by_id = MetadataRequest(topics=[MetadataRequestTopic(name="t", topic_id=topic_id)])
    assert codes(client.send(by_id, version)) == {"t": ErrorCode.INVALID_REQUEST}
    nameless = MetadataRequest(topics=[MetadataRequestTopic(name=None)])
    assert codes(client.send(nameless, version)) == {"": ErrorCode.INVALID_REQUEST}


def test_neither_a_name_nor_an_id_is_no_topic() -> None:
    machine, client = started()
    answer = client.send(MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=ZERO_UUID)]))
    assert codes(answer) == {None: ErrorCode.INVALID_TOPIC_EXCEPTION}
    assert machine.broker.image.topics == {}


# Topics that are made by asking


def test_a_topic_that_is_not_there_is_made_and_the_answer_waits_for_it() -> None:
    machine, client = started(num_partitions="3")
    machine.hold(WriteNodes)
    pending = client.ask(about("new"))
    assert pending.answer is None
    machine.release()
    (topic,) = pending.answer.topics
    assert (topic.error_code, len(topic.partitions), topic.topic_id != ZERO_UUID) == (ErrorCode.NONE, 3, True)


def test_a_topic_asked_for_twice_is_made_once() -> None:
    machine, client = started()
    assert codes(client.send(about("new", "new"))) == {"new": ErrorCode.NONE}
    assert list(machine.broker.image.topics) == ["new"]


def test_two_clients_who_ask_at_once_get_the_same_topic() -> None:
    machine, first = started()
    machine.hold(WriteNodes)
    pending = [first.ask(about("new")), machine.client().ask(about("new"))]
    machine.release()
    ids = {one.answer.topics[0].topic_id for one in pending}
    assert ids == {machine.broker.image.topics["new"].id}


@pytest.mark.parametrize("version", [0, 3, 4, 13])
def test_a_client_may_say_from_v4_that_it_wants_none_made(version: int) -> None:
    _, client = started()
    answer = client.send(about("new", create=version < 4), version)
    expected = ErrorCode.NONE if version < 4 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes(answer) == {"new": expected}


def test_the_broker_may_be_told_to_make_none() -> None:
    machine, client = started(auto_create_topics_enable="false")
    assert codes(client.send(about("new", "a b"))) == {
        "new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "a b": ErrorCode.INVALID_TOPIC_EXCEPTION,
    }
    assert machine.broker.image.topics == {}


def test_what_cannot_be_made_says_why_and_the_rest_is_made() -> None:
    _, client = started()
    create(client, "a.b")
    answer = client.send(about("a b", "", "a_b", "fine"))
    assert codes(answer) == {
        "a b": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "a_b": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "fine": ErrorCode.NONE,
    }


def test_too_few_brokers_for_the_default_replication() -> None:
    _, client = started(default_replication_factor="2")
    assert codes(client.send(about("new"))) == {"new": ErrorCode.INVALID_REPLICATION_FACTOR}


def test_a_keeper_that_does_not_answer_means_ask_again() -> None:
    machine, client = started()
    machine.hold(WriteNodes)
    pending = client.ask(about("new"))
    machine.pass_time(5_000)
    assert codes(pending.answer) == {"new": ErrorCode.LEADER_NOT_AVAILABLE}
    machine.release()
    assert codes(client.send(about("new"))) == {"new": ErrorCode.NONE}


# The cache


def test_every_change_of_the_cluster_is_seen_in_the_next_answer() -> None:
    machine, client = started()
    everything = MetadataRequest(topics=None)
    assert codes(client.send(everything)) == {}
    create(client, "t")
    assert codes(client.send(everything)) == {"t": ErrorCode.NONE}
    lead(machine, "t", leader=1, epoch=9)
    assert client.send(everything).topics[0].partitions[0].leader_epoch == 9
    machine.write(*registration(2, plaintext("other", 9093), None))
    assert len(client.send(everything).brokers) == 2
    assert machine.broker.answers


def test_a_topic_that_is_made_later_is_not_missing_for_ever() -> None:
    _, client = started()
    absent = about("t", create=False)
    assert codes(client.send(absent)) == {"t": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    create(client, "t")
    assert codes(client.send(absent)) == {"t": ErrorCode.NONE}


@pytest.mark.parametrize("version", range(14))
def test_a_topic_of_which_one_node_has_been_seen_is_to_be_asked_for_again(version: int) -> None:
    """A follower of ZooKeeper tells of them one after the other."""
    machine, client = started()
    machine.give_up_the_seat()
    machine.write(Create(znodes.topic_path("t"), znodes.topic_node(b"t" * 16, {0: (1,)})))
    for question in (about("t"), MetadataRequest(topics=None if version else [])):
        assert codes(client.send(question, version)) == {"t": ErrorCode.LEADER_NOT_AVAILABLE}
    described = client.send(DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")]))
    assert described.topics[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE
    machine.write(Create(znodes.state_path("t"), znodes.state_node(1, {0: (1, 1, (1,))})))
    assert codes(client.send(about("t"), version)) == {"t": ErrorCode.NONE}
    described = client.send(DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")]))
    assert described.topics[0].error_code == ErrorCode.NONE


def test_a_topic_named_more_than_once_is_described_once() -> None:
    client = Machine().client()
    create(client, "t")
    asked = [MetadataRequestTopic(name="t") for _ in range(50)]
    assert [topic.name for topic in client.send(MetadataRequest(topics=asked)).topics] == ["t"]


def test_one_request_makes_a_bounded_number_of_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.api.metadata.AUTO_CREATED_MAX", 2)
    _, client = started()
    names = ["a", "b", "c"]
    assert list(codes(client.send(about(*names))).values()) == [0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert set(codes(client.send(about(*names))).values()) == {0}


def test_the_list_of_brokers_is_never_empty_for_whoever_answers_is_there() -> None:
    machine, client = started(advertised_listeners="PLAINTEXT://here:9092")
    me = znodes.BROKERS + str(machine.broker.id)
    before = client.send(MetadataRequest(topics=[])).brokers
    machine.write(Delete(me))  # all sessions expired: ZooKeeper was away for long
    assert machine.broker.image.brokers == {}
    assert client.send(MetadataRequest(topics=[])).brokers == before
    described = client.send(DescribeClusterRequest(include_cluster_authorized_operations=False)).brokers
    assert [(one.broker_id, one.host, one.port) for one in described] == [
        (one.node_id, one.host, one.port) for one in before
    ]
    machine.write(*registration(7, plaintext("elsewhere", 9092), None)[:1])
    assert [one.node_id for one in client.send(MetadataRequest(topics=[])).brokers] == [7]
