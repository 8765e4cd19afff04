"""The text files of a log directory."""

import pytest
from tests.log.simdisk import SimDisk

from ottla.base.ids import TopicPartition
from ottla.log import checkpoint_format, partition_metadata

ID = bytes(range(16))


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk()
    disk.make_directory("/data")
    return disk


def test_a_checkpoint_is_version_count_and_lines():
    offsets = {TopicPartition("b", 0): 5, TopicPartition("a-1", 2): 1 << 40}
    data = checkpoint_format.format_offsets(offsets)
    assert data == b"0\n2\na-1 2 1099511627776\nb 0 5\n"
    assert checkpoint_format.parse_offsets(data.decode()) == offsets


def test_a_missing_checkpoint_is_empty(disk):
    assert checkpoint_format.read_offsets(disk, "/data/x") == {}
    disk.write_atomic("/data/x", b"")  # as Apache Kafka creates them
    assert checkpoint_format.read_offsets(disk, "/data/x") == {}


@pytest.mark.parametrize(
    "data",
    [
        b"0\n",
        b"1\n0\n",
        b"0\n2\na 0 1\n",
        b"0\n1\na 0\n",
        b"0\n1\na 0 -1\n",
        b"x\ny\n",
        b"\xff\xfe",
        bytes(50),
    ],
)
def test_a_checkpoint_that_makes_no_sense_names_itself(disk, data):
    disk.write_atomic("/data/x", data)
    with pytest.raises(checkpoint_format.CheckpointError, match="/data/x"):
        checkpoint_format.read_offsets(disk, "/data/x")


def test_no_beginning_of_a_checkpoint_is_taken_for_the_whole(disk):
    whole = checkpoint_format.format_offsets({TopicPartition("a", 0): 10, TopicPartition("b", 0): 20})
    for size in range(1, len(whole)):
        disk.write_atomic("/data/x", whole[:size])
        with pytest.raises(checkpoint_format.CheckpointError, match="/data/x"):
            checkpoint_format.read_offsets(disk, "/data/x")


def test_no_beginning_of_a_topic_id_is_taken_for_another():
    whole = partition_metadata.format_partition_metadata(ID)
    found = {partition_metadata.parse_partition_metadata(whole[:size]) for size in range(len(whole) + 1)}
    assert found == {None, ID}


def test_partition_metadata_holds_the_topic_id():
    data = partition_metadata.format_partition_metadata(ID)
    assert data == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw\n"
    assert partition_metadata.parse_partition_metadata(data) == ID
    assert partition_metadata.parse_partition_metadata(b"version: 0\ntopic_id: x\n") is None
    assert partition_metadata.parse_partition_metadata(b"version: 1\n") is None


def test_the_marker_of_a_clean_shutdown_is_kafkas():
    assert checkpoint_format.clean_shutdown_marker() == b'{"version":0,"brokerEpoch":"-1"}'
