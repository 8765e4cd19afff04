"""Reading Apache Kafka's metadata log: its newest snapshot and the log behind it, all of it or nothing."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.controller.kraft_logs import (
    LEADER_CHANGE_KEY,
    NO_OP,
    batch,
    broker_config,
    config,
    control,
    topic,
    write_log,
    write_segment,
    write_snapshot,
)
from tests.log.simdisk import SimDisk

from ottla.base.ids import uuid_from_text
from ottla.controller.kraft_log import ClusterMetadata, read_cluster_metadata
from ottla.controller.kraft_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    MetadataError,
    MetadataRecord,
    RemoveTopicRecord,
    TopicRecord,
    parse,
    store,
)

FOLDER = "/data/__cluster_metadata-0"
# Written by Kafka 4.3.1.
TOPIC_BY_KAFKA = "01020005636f6d706c3f3868a68c43c491d509fd2ac5ef6c00"
TOPIC_ID_BY_KAFKA = "bD84aKaMQ8SR1Qn9KsXvbA"
CONFIG_BY_KAFKA = "0104000205636f6d700f636c65616e75702e706f6c69637908636f6d7061637400"

A, B = b"a" * 16, b"b" * 16

words = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=40)
ids = st.binary(min_size=16, max_size=16)
metadata_records: st.SearchStrategy[MetadataRecord] = st.one_of(
    st.builds(TopicRecord, name=words, topic_id=ids),
    st.builds(
        ConfigRecord,
        resource_type=st.sampled_from([2, 4, 16, 32]),
        resource_name=words,
        name=words,
        value=st.none() | words,
    ),
    st.builds(RemoveTopicRecord, topic_id=ids),
    st.builds(BeginTransactionRecord, name=st.none() | words),
    st.builds(EndTransactionRecord),
    st.builds(AbortTransactionRecord, reason=st.none() | words),
)


def read(disk: SimDisk) -> ClusterMetadata:
    return read_cluster_metadata(disk, FOLDER)


def read_log(*values: Any) -> ClusterMetadata:
    disk = SimDisk()
    write_log(disk, FOLDER, *values)
    return read(disk)


@given(metadata_records)
def test_a_record_is_read_as_it_was_stored(record: MetadataRecord) -> None:
    assert parse(store(record)) == record


def test_records_are_read_as_apache_kafka_4_writes_them() -> None:
    made = bytes.fromhex(TOPIC_BY_KAFKA)
    assert parse(made) == TopicRecord(name="comp", topic_id=uuid_from_text(TOPIC_ID_BY_KAFKA))
    assert store(parse(made) or TopicRecord(name="", topic_id=A)) == made
    made = bytes.fromhex(CONFIG_BY_KAFKA)
    assert parse(made) == config("comp", "cleanup.policy", "compact")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (None, "without a value"),
        (b"", "ends in its frame"),
        (b"\1\4", "ends in its frame"),
        (b"\0\4\0", "frame version 0"),
        (b"\2\4\0", "frame version 2"),
        (b"\1\4\1\2\2t\2a\2b\0", "ConfigRecord of version 1"),
        (b"\1\4\0\2\2t\2a", "ConfigRecord of version 0"),
    ],
)
def test_what_cannot_be_understood_is_an_error(value: bytes | None, problem: str) -> None:
    with pytest.raises(MetadataError, match=problem):
        parse(value)


def test_other_types_of_records_are_skipped() -> None:
    assert parse(NO_OP) is None
    assert parse(b"\1\x1b\7whatever comes later") is None
    assert read_log(NO_OP, topic("t", A), NO_OP).topics == {"t": A}


def test_the_last_word_on_a_config_counts_and_null_removes_it() -> None:
    metadata = read_log(
        topic("t", A),
        config("t", "cleanup.policy", "compact"),
        config("t", "retention.ms", "5"),
        config("t", "cleanup.policy", "compact,delete"),
        config("t", "retention.ms", None),
        broker_config("", "log.retention.ms", "7"),
        broker_config("1", "log.retention.ms", "8"),
    )
    assert metadata.topic_config("t") == {"cleanup.policy": "compact,delete"}
    assert (metadata.broker_config(""), metadata.broker_config("1")) == (
        {"log.retention.ms": "7"},
        {"log.retention.ms": "8"},
    )
    assert metadata.topic_config("other") == {}


def test_a_deleted_topics_configs_go_with_it_and_are_not_inherited() -> None:
    metadata = read_log(
        topic("t", A),
        config("t", "cleanup.policy", "compact"),
        topic("gone", B),
        config("gone", "cleanup.policy", "compact"),
        RemoveTopicRecord(topic_id=A),
        RemoveTopicRecord(topic_id=B),
        topic("t", b"c" * 16),
        config("t", "retention.ms", "5"),
    )
    assert metadata.topics == {"t": b"c" * 16}
    assert metadata.topic_config("t") == {"retention.ms": "5"}
    assert metadata.topic_config("gone") == {}


def test_only_what_a_transaction_ended_counts() -> None:
    begin, end, abort = BeginTransactionRecord(), EndTransactionRecord(), AbortTransactionRecord()
    metadata = read_log(
        begin, topic("ended", A), config("ended", "retention.ms", "1"), end,
        begin, topic("aborted", B), abort,
        config("ended", "flush.ms", "2"),
        begin, config("ended", "retention.ms", "3"),
    )  # fmt: skip
    assert metadata.topics == {"ended": A}
    assert metadata.topic_config("ended") == {"retention.ms": "1", "flush.ms": "2"}


def test_the_newest_snapshot_counts_and_then_the_log_behind_it() -> None:
    disk = SimDisk()
    write_snapshot(disk, FOLDER, 3, topic("old", A))
    write_snapshot(disk, FOLDER, 12, topic("t", B), config("t", "retention.ms", "5"))
    disk.write_atomic(f"{FOLDER}/{40:020}-{1:010}.checkpoint.part", b"half of one")
    write_log(disk, FOLDER, *[config("t", "flush.ms", str(n)) for n in range(9)])  # offsets 1 to 9
    values = [config("t", "retention.ms", "before"), config("t", "segment.ms", "12")]
    write_segment(disk, FOLDER, control(LEADER_CHANGE_KEY, 10), batch(values, 11), base_offset=10)
    metadata = read(disk)
    assert metadata.topics == {"t": B}
    assert metadata.topic_config("t") == {"retention.ms": "5", "segment.ms": "12"}
    assert metadata.log_end_offset == 13


def test_a_snapshot_may_be_all_there_is() -> None:
    disk = SimDisk()
    write_snapshot(disk, FOLDER, 12, topic("t", B))
    assert read(disk).topics == {"t": B}
    write_segment(disk, FOLDER, base_offset=12)
    assert (read(disk).topics, read(disk).log_end_offset) == ({"t": B}, 12)


def test_a_snapshot_that_is_cut_off_is_not_believed() -> None:
    disk = SimDisk()
    write_log(disk, FOLDER, topic("t", A))
    path = write_snapshot(disk, FOLDER, 1, topic("t", A), footer=False)
    with pytest.raises(MetadataError, match=f"{path}: the snapshot is cut off"):
        read(disk)


def test_records_that_are_missing_are_noticed() -> None:
    disk = SimDisk()
    write_segment(disk, FOLDER, batch([topic("t", A)], 5), base_offset=5)
    with pytest.raises(MetadataError, match="the records from offset 0 to 5 are missing"):
        read(disk)
    write_snapshot(disk, FOLDER, 5)
    assert read(disk).topics == {"t": A}
    write_segment(disk, FOLDER, batch([NO_OP], 8), base_offset=8)
    with pytest.raises(MetadataError, match="offset 8 follows where 6 should"):
        read(disk)


def test_what_a_known_record_cannot_be_is_said_with_its_place() -> None:
    with pytest.raises(MetadataError, match=r"0\.log: a ConfigRecord of version 3.* at offset 2"):
        read_log(NO_OP, b"\1\4\3")


@given(st.data())
def test_damage_anywhere_is_noticed(data: st.DataObject) -> None:
    """All of it, or an error: never something else."""
    disk = SimDisk()
    paths = [
        write_snapshot(disk, FOLDER, 2, topic("t", A), config("t", "cleanup.policy", "compact")),
        write_log(disk, FOLDER, NO_OP, config("t", "retention.ms", "1"), config("t", "retention.ms", "2")),
    ]
    whole = read(disk)
    path = data.draw(st.sampled_from(paths))
    content = bytearray(disk.read(path))
    at = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        del content[at:]
    else:
        content[at] ^= 1 << data.draw(st.integers(0, 7))
    disk.write_atomic(path, bytes(content))
    try:
        found = read(disk)
    except MetadataError:
        return
    # A log may end after any batch, and a leader epoch is outside of the checksum.
    assert found == whole or (path == paths[1] and found.log_end_offset < whole.log_end_offset)
