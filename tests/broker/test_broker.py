"""What a broker makes of changes in the cluster."""

import pytest
from tests.api.asking import batch, create, fetch, produce, values
from tests.api.harness import Machine

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition
from ottla.controller import znodes
from ottla.controller.keeper import Create, Delete, NodeChanged, Put
from ottla.log import checkpoint_format, partition_metadata


def topic_nodes(name: str, assignment: dict[int, tuple[int, ...]]) -> list[Create]:
    states = {p: (replicas[0], 0, replicas) for p, replicas in assignment.items()}
    return [
        Create(znodes.topic_path(name), znodes.topic_node(b"i" * 16, assignment)),
        Create(znodes.state_path(name), znodes.state_node(1, states)),
    ]


def code(machine: Machine, topic: str, partition: int) -> ErrorCode:
    with pytest.raises(ApiError) as refused:
        machine.broker.partitions.find(topic, partition)
    return refused.value.code


def test_only_partitions_with_a_replica_here_are_opened() -> None:
    machine = Machine()
    machine.give_up_the_seat()
    machine.write(*topic_nodes("t", {0: (1,), 1: (2,), 2: (2, 1)}))
    assert [str(id) for id in machine.broker.partitions] == ["t-0", "t-2"]
    assert machine.broker.partitions.find("t", 0).is_leader
    assert not machine.broker.partitions.find("t", 2).is_leader
    assert code(machine, "t", 1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert code(machine, "t", 3) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_without_its_states_yet_has_no_partitions() -> None:
    machine = Machine()
    made, states = topic_nodes("t", {0: (1,)})
    machine.write(made)
    assert machine.broker.partitions == {}
    machine.write(states)
    assert list(machine.broker.partitions) == [TopicPartition("t", 0)]


def test_a_topic_that_came_and_went_at_once_leaves_nothing() -> None:
    machine = Machine()
    changed = [NodeChanged(one.path, one.data, 0) for one in topic_nodes("t", {0: (1,)})]
    changed.append(NodeChanged(znodes.topic_path("t"), None, 0))
    machine.broker.on_nodes(changed, machine.now_ms)
    assert machine.broker.partitions == {}


def test_a_log_that_does_not_know_whose_it_is_is_told() -> None:
    """A crash came after its first file and before partition.metadata: else it would pass for any topic's."""
    machine = Machine()
    create(machine.client(), "t")
    path = f"/data/t-0/{partition_metadata.PARTITION_METADATA}"
    whole = machine.disk.read(path)
    machine.disk.remove(path)
    machine.crash()
    assert machine.disk.read(path) == whole


def test_watermarks_are_written_down_from_time_to_time() -> None:
    machine = Machine({"replica.high.watermark.checkpoint.interval.ms": "100"})
    client = machine.client()
    create(client, "t")
    produce(client, "t", batch("a", "b"))
    machine.pass_time(100)
    written = checkpoint_format.read_offsets(machine.disk, f"/data/{checkpoint_format.HIGH_WATERMARKS}")
    assert written == {TopicPartition("t", 0): 2}


def test_retention_never_takes_what_is_not_committed_and_takes_the_rest() -> None:
    machine = Machine({"log.retention.check.interval.ms": "100"})
    client = machine.client()
    create(client, "t", retention_ms="1000")
    produce(client, "t", batch("old"))
    machine.pass_time(1_000)
    produce(client, "t", batch("new", at=machine.now_ms))
    machine.pass_time(500)
    assert values(fetch(client, "t")) == ["old", "new"], "one segment, kept for its newest record"
    machine.pass_time(1_000)
    assert fetch(client, "t", 0).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert fetch(client, "t", 2).log_start_offset == 2


def test_a_broker_config_of_another_broker_is_none_of_ours() -> None:
    machine = Machine()
    machine.write(Create(znodes.broker_config_path("2"), znodes.config_node({"message.max.bytes": "5"})))
    assert machine.broker.settings.log_config.max_message_bytes > 5
    machine.write(Create(znodes.broker_config_path("1"), znodes.config_node({"message.max.bytes": "6"})))
    assert machine.broker.settings.log_config.max_message_bytes == 6
    machine.write(Put(znodes.broker_config_path("1"), znodes.config_node({})))
    assert machine.broker.settings.log_config.max_message_bytes > 6


def test_logs_are_spread_over_the_directories() -> None:
    machine = Machine({"log.dirs": "/one,/two"})
    create(machine.client(), "t", partitions=4)
    homes = [machine.broker.store.directory_of(TopicPartition("t", p)) for p in range(4)]
    assert homes == ["/one", "/two", "/one", "/two"]
    machine.restart()
    assert len(machine.broker.partitions) == 4
    machine.write(Delete(znodes.topic_path("t")))
    assert machine.broker.store.logs == {}
