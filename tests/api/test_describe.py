"""What the broker tells about itself: cluster, log directories, producers, partitions, resources."""

from typing import Any

import pytest
from tests.api.asking import batch, create, idempotent, lead, produce
from tests.api.harness import CLUSTER_ID, NOW, Client, Machine
from tests.api.test_alter_configs import BROKER, TOPIC, set_configs
from tests.support.endpoints import plaintext

from ottla.base.errors import ErrorCode
from ottla.base.ids import ZERO_UUID
from ottla.controller.keeper import Delete
from ottla.controller.registration import registration
from ottla.wire.messages.describe_cluster import DescribeClusterRequest
from ottla.wire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from ottla.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.wire.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest
from ottla.wire.messages.describe_topic_partitions import TopicRequest as Described
from ottla.wire.messages.list_config_resources import ListConfigResourcesRequest
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

# DescribeCluster


def test_the_cluster_is_described() -> None:
    machine = Machine()
    machine.write(*registration(2, plaintext("other", 9093), "r2"))
    answer = machine.client().send(DescribeClusterRequest(include_cluster_authorized_operations=True))
    assert (answer.cluster_id, answer.controller_id) == (CLUSTER_ID, 1)
    brokers = [(one.broker_id, one.host, one.port, one.rack, one.is_fenced) for one in answer.brokers]
    assert brokers == [(1, "localhost", 9092, None, False), (2, "other", 9093, "r2", False)]


@pytest.mark.parametrize("wanted", [True, False])
def test_whoever_describes_the_cluster_may_ask_what_it_may_do(wanted: bool) -> None:
    asked = DescribeClusterRequest(include_cluster_authorized_operations=wanted)
    answer = Machine().client().send(asked)
    operations = {number for number in range(32) if answer.cluster_authorized_operations >> number & 1}
    assert operations == ({5, 7, 8, 9, 10, 11, 12} if wanted else {31})


@pytest.mark.parametrize(
    ("kind", "code"), [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (7, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)]
)
def test_an_endpoint_of_another_type_is_refused(kind: int, code: ErrorCode) -> None:
    request = DescribeClusterRequest(include_cluster_authorized_operations=False, endpoint_type=kind)
    answer = Machine().client().send(request)
    assert (answer.error_code, answer.brokers) == (code, [])
    assert answer.error_message


# DescribeLogDirs


def test_log_directories_show_sizes_and_space() -> None:
    machine = Machine({"log.dirs": "/one,/two"})
    client = machine.client()
    create(client, "t", partitions=3)
    produce(client, "t", one := batch("a"))
    answer = client.send(DescribeLogDirsRequest(topics=None))
    found = {
        (result.log_dir, topic.name, part.partition_index): part.partition_size
        for result in answer.results
        for topic in result.topics
        for part in topic.partitions
    }
    assert found == {("/one", "t", 0): len(one), ("/two", "t", 1): 0, ("/one", "t", 2): 0}
    space = {(result.total_bytes, result.usable_bytes) for result in answer.results}
    assert space == {(machine.disk.total_bytes, machine.disk.usable_bytes)}


def test_only_the_partitions_asked_for_are_shown() -> None:
    machine = Machine()
    client = machine.client()
    create(client, "t", partitions=2)
    create(client, "u")
    asked = [DescribableLogDirTopic(topic="t", partitions=[1, 9])]
    (result,) = client.send(DescribeLogDirsRequest(topics=asked)).results
    assert [(topic.name, [part.partition_index for part in topic.partitions]) for topic in result.topics] == [
        ("t", [1])
    ]
    (result,) = client.send(DescribeLogDirsRequest(topics=[])).results
    assert result.topics == []


# DescribeProducers


def test_the_producers_of_a_partition_are_shown() -> None:
    machine = Machine()
    client = machine.client()
    create(client, "t")
    produce(client, "t", idempotent(0, "a", "b", producer_id=9, epoch=2))
    produce(client, "t", idempotent(0, producer_id=4))
    asked = DescribeProducersRequest(topics=[TopicRequest(name="t", partition_indexes=[0, 5])])
    known, unknown = client.send(asked).topics[0].partitions
    found = [
        (
            one.producer_id,
            one.producer_epoch,
            one.last_sequence,
            one.last_timestamp,
            one.current_txn_start_offset,
        )
        for one in known.active_producers
    ]
    assert found == [(4, 0, 0, NOW, -1), (9, 2, 1, NOW, -1)]
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    lead(machine, "t", leader=2, epoch=1)
    assert client.send(asked).topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


# DescribeTopicPartitions


def pages(client: Client, *names: str, limit: int = 2) -> list[list[tuple[str, list[int]]]]:
    """Every page, each as topics with their partitions."""
    found: list[list[tuple[str, list[int]]]] = []
    cursor = None
    while True:
        topics = [Described(name=name) for name in names]
        request = DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=limit, cursor=cursor)
        answer = client.send(request)
        found.append([(topic.name, [p.partition_index for p in topic.partitions]) for topic in answer.topics])
        if answer.next_cursor is None:
            return found
        cursor = Cursor(
            topic_name=answer.next_cursor.topic_name, partition_index=answer.next_cursor.partition_index
        )


@pytest.fixture
def three() -> Machine:
    machine = Machine()
    client = machine.client()
    for name, partitions in (("b", 3), ("a", 1), ("c", 2)):
        create(client, name, partitions)
    return machine


def test_partitions_come_in_pages_in_the_order_of_names(three: Machine) -> None:
    client = three.client()
    assert pages(client) == [[("a", [0]), ("b", [0])], [("b", [1, 2])], [("c", [0, 1])]]
    assert pages(client, "c", "b") == [[("b", [0, 1])], [("b", [2]), ("c", [0])], [("c", [1])]]
    assert pages(client, limit=100) == [[("a", [0]), ("b", [0, 1, 2]), ("c", [0, 1])]]
    assert [len(page) for page in pages(client, limit=0)] == [1] * 6, "a page has at least one"
    assert pages(client, "b", "b") == [[("b", [0, 1])], [("b", [2])]]


def test_the_broker_limits_a_page_whatever_is_asked() -> None:
    machine = Machine({"max.request.partition.size.limit": "1"})
    client = machine.client()
    create(client, "t", 2)
    assert pages(client, limit=100) == [[("t", [0])], [("t", [1])]]


def test_partitions_are_described_and_unknown_topics_are_errors(three: Machine) -> None:
    three.write(*registration(2, plaintext("other", 9093), None))
    lead(three, "b", leader=2, epoch=6)
    three.write(Delete("/brokers/ids/2"))
    request = DescribeTopicPartitionsRequest(
        topics=[Described(name="nowhere"), Described(name="a"), Described(name="b")]
    )
    a, b, nowhere = three.client().send(request).topics
    assert (a.topic_id, a.is_internal) == (three.broker.image.topics["a"].id, False)
    (part,) = a.partitions
    assert (part.leader_id, part.leader_epoch, part.replica_nodes, part.isr_nodes) == (1, 0, [1], [1])
    assert (b.partitions[0].leader_id, b.partitions[0].error_code) == (-1, ErrorCode.LEADER_NOT_AVAILABLE)
    assert (nowhere.error_code, nowhere.topic_id) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ZERO_UUID)


def test_partitions_come_with_what_may_be_done_with_their_topic(three: Machine) -> None:
    answer = three.client().send(DescribeTopicPartitionsRequest(response_partition_limit=100))
    assert {topic.topic_authorized_operations for topic in answer.topics} == {0b1101_1111_1000}


@pytest.mark.parametrize(
    "cursor", [Cursor(topic_name="b", partition_index=-1), Cursor(topic_name="x", partition_index=0)]
)
def test_a_cursor_that_points_nowhere_is_refused(three: Machine, cursor: Cursor) -> None:
    topics = [Described(name="b"), Described(name="c")]
    answer = three.client().send(DescribeTopicPartitionsRequest(topics=topics, cursor=cursor))
    assert [one.error_code for one in answer.topics] == [ErrorCode.INVALID_REQUEST] * 2


def test_a_topic_that_was_deleted_between_two_pages_is_passed_over(three: Machine) -> None:
    cursor = Cursor(topic_name="bb", partition_index=3)
    answer = three.client().send(DescribeTopicPartitionsRequest(cursor=cursor))
    assert [topic.name for topic in answer.topics] == ["c"]


# ListConfigResources


def resources(client: Client, *kinds: int, version: int = 1) -> list[tuple[int, str]]:
    answer = client.send(ListConfigResourcesRequest(resource_types=list(kinds)), version)
    assert answer.error_code == ErrorCode.NONE
    return [(one.resource_type, one.resource_name) for one in answer.config_resources]


def test_resources_are_listed_by_type(three: Machine) -> None:
    client = three.client()
    topics = [(TOPIC, name) for name in "abc"]
    assert resources(client, TOPIC) == topics
    assert resources(client, BROKER) == [(BROKER, "1")]
    assert resources(client, BROKER, TOPIC, BROKER) == [(BROKER, "1"), *topics]
    assert resources(client, 16, 32) == []
    assert resources(client) == [*topics, (BROKER, "1"), (8, "1")]
    set_configs(client, BROKER, "", {"log.retention.ms": "1"})
    assert resources(client, BROKER) == [(BROKER, "1")]


def test_version_0_knew_client_metrics_only(three: Machine) -> None:
    answer = three.client().send(ListConfigResourcesRequest(), 0)
    assert (answer.error_code, answer.config_resources) == (ErrorCode.NONE, [])


def test_a_type_that_cannot_be_listed(three: Machine) -> None:
    answer = three.client().send(ListConfigResourcesRequest(resource_types=[TOPIC, 3]))
    assert (answer.error_code, answer.config_resources) == (ErrorCode.UNSUPPORTED_VERSION, [])


# UpdateFeatures


@pytest.mark.parametrize("version", [0, 1, 2])
def test_there_are_no_features_to_change(version: int) -> None:
    update = FeatureUpdateKey(feature="metadata.version", max_version_level=7)
    answer: Any = Machine().client().send(UpdateFeaturesRequest(feature_updates=[update]), version)
    if version < 2:
        (result,) = answer.results
        assert (answer.error_code, result.feature) == (ErrorCode.NONE, "metadata.version")
        assert result.error_code == ErrorCode.INVALID_UPDATE_VERSION
    else:
        assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert "metadata.version" in answer.error_message
