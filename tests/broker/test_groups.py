"""Which groups are a broker's, and the image as groups see it."""

import pytest
from tests.api.asking import ask_for_two_in_sync
from tests.api.groups import broker, committed
from tests.api.harness import Machine
from tests.support.endpoints import plaintext
from tests.support.groups import G, committing, groups_of

from ottla.base.errors import ApiError
from ottla.base.ids import OFFSETS_TOPIC, TopicPartition
from ottla.broker.groups import ImageTopics
from ottla.broker.internal_partitions import java_hash, shard_of_key
from ottla.controller import znodes
from ottla.controller.image import Image
from ottla.controller.keeper import NodeChanged
from ottla.controller.registration import registration
from ottla.wire.messages.delete_topics import DeleteTopicsRequest

INT_MIN = -(1 << 31)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("Hello World", -862545276),
        ("console-consumer-1", 35782224),
        ("polygenelubricants", INT_MIN),
        ("Aa", 2112),
        ("BB", 2112),
        ("é", 233),
        ("日本", 835047),
        ("😀", 1772899),
        ("\ud83d", 55357),
    ],
)
def test_a_hash_is_that_of_java_over_utf_16(text: str, value: int) -> None:
    assert java_hash(text) == value


def test_long_keys_are_not_kept() -> None:
    """They may have 32 KiB, and anybody makes them up."""
    kept = java_hash.cache_info().currsize
    key = "a key that nobody has " * 100
    assert shard_of_key(key, 50) == abs(java_hash.__wrapped__(key)) % 50
    assert java_hash.cache_info().currsize == kept


@pytest.mark.parametrize(
    ("group", "partition"),
    [("polygenelubricants", 0), ("hello", 22), ("Hello World", 26), ("", 0), ("a", 47)],
)
def test_a_group_belongs_to_the_partition_that_its_id_hashes_to(group: str, partition: int) -> None:
    assert Machine().broker.coordinators.groups.partition_of(group) == TopicPartition(
        OFFSETS_TOPIC, partition
    )


def test_a_topic_made_with_another_number_of_partitions_counts_not_the_config() -> None:
    machine, client, _ = broker()
    assert machine.broker.coordinators.groups.partition_of("a").partition == 97 % 5
    machine.properties["offsets.topic.num.partitions"] = "50"
    machine.restart()
    assert machine.broker.coordinators.groups.partition_of("a").partition == 97 % 5
    assert client


def test_the_image_as_groups_see_it() -> None:
    image = Image()
    topics = ImageTopics(image)
    assert (list(topics.names()), topics.revision) == ([], 0)
    for id, rack in ((1, "north"), (2, "south"), (3, None)):
        for operation in registration(id, plaintext("h", 9092), rack):
            image.apply(NodeChanged(operation.path, operation.data, 0))
    assignment = {0: (1, 2), 1: (3,), 2: (2, 9)}
    image.apply(NodeChanged(znodes.topic_path("t"), znodes.topic_node(b"i" * 16, assignment), 0))
    assert topics.revision > 0
    assert list(topics.names()) == ["t"]
    assert (topics.id_of("t"), topics.id_of("none")) == (b"i" * 16, None)
    assert (topics.name_of(b"i" * 16), topics.name_of(b"x" * 16)) == ("t", None)
    assert (topics.partition_count("t"), topics.partition_count("none")) == (3, 0)
    assert topics.racks("t") == {0: {"north", "south"}, 2: {"south"}}
    assert topics.racks("none") == {}


def test_a_broker_that_never_was_asked_for_a_group_has_no_coordinator() -> None:
    machine = Machine()
    machine.pass_time(1_000)
    machine.restart()
    assert machine.broker.coordinators._groups is None


def test_an_operation_needs_a_group_id_and_a_shard() -> None:
    groups = Machine().broker.coordinators.groups
    with pytest.raises(ApiError, match="needs an id"):
        groups.check_key("")
    with pytest.raises(ApiError, match="NOT_COORDINATOR"):
        groups.runtime.execute(groups.partition_of("g").partition, 0, lambda shard, turn: None)
    assert list(groups.shards()) == []


def test_a_topic_can_be_deleted_while_its_offsets_cannot() -> None:
    machine, client, _ = broker()
    client.send(committing(5), 9)
    ask_for_two_in_sync(machine, OFFSETS_TOPIC)
    answer = client.send(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)
    assert answer.responses[0].error_code == 0
    machine.pass_time(100)
    (shard,) = (shard for _, shard in machine.broker.coordinators.groups.shards() if groups_of(shard.offsets))
    assert shard.offsets.newest(G), "they are stored"
    assert committed(client) == -1, "and told to nobody"
