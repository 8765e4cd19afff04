"""The copies of settings beside the logs."""

from tests.log.simdisk import SimDisk

from ottla.log import partition_metadata
from ottla.log.config_copy import ConfigCopy, format_copy, parse_copy, read_topic_copy

ID, OTHER = bytes(range(16)), b"o" * 16
COPY = ConfigCopy(ID, 3, 17, {"cleanup.policy": "compact", "retention.ms": "5"})


def test_a_copy_is_read_as_it_was_written() -> None:
    assert parse_copy(format_copy(COPY)) == COPY
    brokers = ConfigCopy(None, 1, 0, {"": {"log.retention.ms": "5"}})
    assert parse_copy(format_copy(brokers)) == brokers


def test_a_copy_that_was_cut_off_anywhere_says_nothing() -> None:
    whole = format_copy(COPY)
    found = {size: parse_copy(whole[:size]) for size in range(len(whole))}
    assert [size for size, copy in found.items() if copy is not None] == [len(whole) - 1], "the newline alone"


def test_what_is_no_copy_says_nothing() -> None:
    for data in (b"", b"\0" * 200, b"[]", b"7", b'{"version": 1}', b'{"version": 0}', b"\xff"):
        assert parse_copy(data) is None, data
    assert parse_copy(format_copy(COPY).replace(b'"version": 0', b'"version": 1')) is None
    assert parse_copy(format_copy(COPY._replace(configs=[]))) is None  # type: ignore[arg-type]


def test_a_folder_says_what_is_set_for_its_topic() -> None:
    disk = SimDisk()
    disk.make_directory("/f")
    assert read_topic_copy(disk, "/f", ID) is None, "nobody wrote anything"
    disk.write_atomic("/f/partition.metadata", partition_metadata.format_partition_metadata(ID))
    assert read_topic_copy(disk, "/f", ID) is None, "as Apache Kafka writes it"
    disk.write_atomic(
        "/f/partition.metadata", partition_metadata.format_partition_metadata(ID, no_configs=True)
    )
    assert read_topic_copy(disk, "/f", ID) == ConfigCopy(ID, 0, 0, {})
    disk.write_atomic("/f/topic.config", format_copy(COPY))
    assert read_topic_copy(disk, "/f", ID) == COPY
    assert read_topic_copy(disk, "/f", None) == COPY, "partition.metadata is lost"
    assert read_topic_copy(disk, "/f", OTHER) is None
    disk.write_atomic("/f/topic.config", format_copy(COPY)[:-9])
    assert read_topic_copy(disk, "/f", ID) is None, "something was set, and nobody knows what"
