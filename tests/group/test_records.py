"""The records of `__consumer_offsets`. The golden bytes are worked out by hand from Kafka's schemas."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.coordinator.records import CorruptRecordError
from ottla.coordinator.turn import StoredRecord
from ottla.group.records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMember,
    ConsumerGroupMemberValue,
    ConsumerGroupMetadata,
    ConsumerGroupMetadataValue,
    CurrentMemberAssignment,
    CurrentMemberAssignmentValue,
    GroupMember,
    GroupMetadata,
    GroupMetadataValue,
    OffsetCommit,
    OffsetCommitValue,
    RegularExpression,
    RegularExpressionValue,
    TargetAssignmentMember,
    TargetAssignmentMemberValue,
    TargetAssignmentMetadata,
    TargetAssignmentMetadataValue,
    TopicPartitions,
    parse,
    parse_any,
    store,
    store_offset,
)

examples = settings(max_examples=60)
ID = bytes(range(16))
ID_HEX = ID.hex()

names = st.text(max_size=9)
i32 = st.integers(-(2**31), 2**31 - 1)
counters = st.integers(-(2**31), 2**31 - 2)
i64 = st.integers(-(2**63), 2**63 - 1)
blobs = st.binary(max_size=9)
ids = st.binary(min_size=16, max_size=16)
partitions = st.lists(
    st.builds(TopicPartitions, topic_id=ids, partitions=st.lists(i32, max_size=4)), max_size=3
)
classic_members = st.builds(
    ClassicMemberMetadata,
    session_timeout_ms=i32,
    supported_protocols=st.lists(st.builds(ClassicProtocol, name=names, metadata=blobs), max_size=3),
)


def _member_id(member):
    return member.member_id


def _instance_id(member):
    """No two are alike that have none."""
    return member.group_instance_id if member.group_instance_id is not None else id(member)


group_members = st.builds(
    GroupMember,
    member_id=names,
    group_instance_id=st.none() | names,
    client_id=names,
    client_host=names,
    rebalance_timeout=i32,
    session_timeout=i32,
    subscription=blobs,
    assignment=blobs,
)
entries = st.one_of(
    st.builds(
        OffsetCommit, names, names, i32,
        st.none() | st.builds(
            OffsetCommitValue, offset=i64, leader_epoch=i32, metadata=names, commit_timestamp=i64,
            topic_id=st.just(bytes(16)) | ids,
        ),
    ),
    st.builds(
        GroupMetadata, names,
        st.none() | st.builds(
            GroupMetadataValue, protocol_type=names, generation=counters, protocol=st.none() | names,
            leader=st.none() | names, current_state_timestamp=i64,
            members=st.lists(group_members, max_size=2, unique_by=(_member_id, _instance_id)),
        ),
    ),
    st.builds(
        ConsumerGroupMetadata, names,
        st.none() | st.builds(ConsumerGroupMetadataValue, epoch=counters, metadata_hash=i64),
    ),
    st.builds(
        ConsumerGroupMember, names, names,
        st.none() | st.builds(
            ConsumerGroupMemberValue, instance_id=st.none() | names, rack_id=st.none() | names,
            client_id=names, client_host=names, subscribed_topic_names=st.lists(names, max_size=3),
            subscribed_topic_regex=st.none() | names, rebalance_timeout_ms=i32,
            server_assignor=st.none() | names, classic_member_metadata=st.none() | classic_members,
        ),
    ),
    st.builds(
        TargetAssignmentMetadata, names,
        st.none() | st.builds(TargetAssignmentMetadataValue, assignment_epoch=i32)
    ),
    st.builds(
        TargetAssignmentMember, names, names,
        st.none() | st.builds(TargetAssignmentMemberValue, topic_partitions=partitions),
    ),
    st.builds(
        CurrentMemberAssignment, names, names,
        st.none() | st.builds(
            CurrentMemberAssignmentValue, member_epoch=i32, previous_member_epoch=i32,
            state=st.integers(-128, 127), assigned_partitions=partitions,
            partitions_pending_revocation=partitions,
        ),
    ),
    st.builds(
        RegularExpression, names, names,
        st.none() | st.builds(
            RegularExpressionValue, topics=st.lists(names, max_size=3), version=i64, timestamp=i64
        ),
    ),
)  # fmt: skip


@settings(max_examples=400)
@given(entries)
def test_what_is_stored_is_parsed_back(entry):
    parsed = parse(store(entry))
    assert parsed == entry
    assert type(parsed) is type(entry)


def commit(**more):
    return OffsetCommit(
        "g", "t", 7, OffsetCommitValue(offset=258, metadata="m", commit_timestamp=1000, **more)
    )


MEMBER = GroupMember(
    member_id="m", group_instance_id="i", client_id="c", client_host="h", rebalance_timeout=5,
    session_timeout=6, subscription=b"S", assignment=b"A",
)  # fmt: skip

GOLDEN = {
    "an offset": (
        commit(leader_epoch=3),
        "0001 0001 67 0001 74 00000007",
        "0003 0000000000000102 00000003 0001 6d 00000000000003e8",
    ),
    "an offset with a retention of its own": (
        commit(expire_timestamp=2000),
        "0001 0001 67 0001 74 00000007",
        "0001 0000000000000102 0001 6d 00000000000003e8 00000000000007d0",
    ),
    "an offset by topic id": (
        commit(leader_epoch=3, topic_id=ID),
        "0001 0001 67 0001 74 00000007",
        "0004 0000000000000102 00000003 02 6d 00000000000003e8 01 00 10" + ID_HEX,
    ),
    "a tombstone": (OffsetCommit("g", "t", 7, None), "0001 0001 67 0001 74 00000007", None),
    "a classic group": (
        GroupMetadata(
            "g",
            GroupMetadataValue(
                protocol_type="consumer", generation=2, protocol="range", leader="m",
                current_state_timestamp=1000, members=[MEMBER],
            ),
        ),
        "0002 0001 67",
        "0003 0008" + b"consumer".hex() + "00000002 0005" + b"range".hex() + "0001 6d 00000000000003e8"
        + "00000001 0001 6d 0001 69 0001 63 0001 68 00000005 00000006 00000001 53 00000001 41",
    ),
    "an empty classic group": (
        GroupMetadata("g", GroupMetadataValue(protocol_type="", generation=0)),
        "0002 0001 67",
        "0003 0000 00000000 ffff ffff ffffffffffffffff 00000000",
    ),
    "a consumer group": (
        ConsumerGroupMetadata("g", ConsumerGroupMetadataValue(epoch=10)), "0003 0001 67", "0000 0000000a 00",
    ),
    "a consumer group with a hash": (
        ConsumerGroupMetadata("g", ConsumerGroupMetadataValue(epoch=10, metadata_hash=5)),
        "0003 0001 67",
        "0000 0000000a 01 00 08 0000000000000005",
    ),
    "a member": (
        ConsumerGroupMember(
            "g", "m",
            ConsumerGroupMemberValue(
                rack_id="r", client_id="c", client_host="h", subscribed_topic_names=["t"],
                rebalance_timeout_ms=9, server_assignor="range",
            ),
        ),
        "0005 0001 67 0001 6d",
        "0000 00 02 72 02 63 02 68 02 02 74 00 00000009 06" + b"range".hex() + "00",
    ),
    "a classic member of a consumer group": (
        ConsumerGroupMember(
            "g", "m",
            ConsumerGroupMemberValue(
                client_id="c", client_host="h",
                classic_member_metadata=ClassicMemberMetadata(
                    session_timeout_ms=4, supported_protocols=[ClassicProtocol(name="p", metadata=b"x")]
                ),
            ),
        ),
        "0005 0001 67 0001 6d",
        "0000 00 00 02 63 02 68 01 00 ffffffff 00 01 00 0c 01 00000004 02 02 70 02 78 00 00",
    ),
    "an assignment epoch": (
        TargetAssignmentMetadata("g", TargetAssignmentMetadataValue(assignment_epoch=11)),
        "0006 0001 67",
        "0000 0000000b 00",
    ),
    "a target": (
        TargetAssignmentMember(
            "g",
            "m",
            TargetAssignmentMemberValue(topic_partitions=[TopicPartitions(topic_id=ID, partitions=[1, 2])]),
        ),
        "0007 0001 67 0001 6d",
        "0000 02" + ID_HEX + "03 00000001 00000002 00 00",
    ),
    "a current assignment": (
        CurrentMemberAssignment(
            "g", "m",
            CurrentMemberAssignmentValue(
                member_epoch=2, previous_member_epoch=1, state=1,
                assigned_partitions=[TopicPartitions(topic_id=ID, partitions=[0])],
                partitions_pending_revocation=[],
            ),
        ),
        "0008 0001 67 0001 6d",
        "0000 00000002 00000001 01 02" + ID_HEX + "02 00000000 00 01 00",
    ),
    "a regular expression": (
        RegularExpression("g", "a*", RegularExpressionValue(topics=["t"], version=3, timestamp=1000)),
        "0010 0001 67 0002 612a",
        "0000 02 02 74 0000000000000003 00000000000003e8 00",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GOLDEN)
def test_the_bytes_are_those_of_kafka(name):
    entry, key, value = GOLDEN[name]
    record = StoredRecord(bytes.fromhex(key), None if value is None else bytes.fromhex(value))
    assert store(entry) == record
    assert parse(record) == entry


@pytest.mark.parametrize(
    ("version", "value"),
    [
        (0, "0000 0000000000000102 0001 6d 00000000000003e8"),
        (1, "0001 0000000000000102 0001 6d 00000000000003e8 ffffffffffffffff"),
        (2, "0002 0000000000000102 0001 6d 00000000000003e8"),
        (4, "0004 0000000000000102 ffffffff 02 6d 00000000000003e8 00"),
    ],
)  # fmt: skip
def test_offsets_of_every_version_are_read_under_both_key_types(version, value):
    for key in ("0000", "0001"):
        record = StoredRecord(bytes.fromhex(key + "0001 670001 7400000007"), bytes.fromhex(value))
        assert parse(record) == commit()


def test_a_classic_group_of_the_first_version_has_no_timestamps_and_no_instance_ids():
    value = "0000 0000 00000001 ffff ffff 00000001 0001 6d 0001 63 0001 68 00000006 00000001 53 00000001 41"
    parsed = parse(StoredRecord(bytes.fromhex("0002 0001 67"), bytes.fromhex(value)))
    assert parsed.value.current_state_timestamp == -1
    assert parsed.value.members[0].rebalance_timeout == -1
    assert parsed.value.members[0].group_instance_id is None


def test_tagged_fields_of_newer_versions_are_skipped():
    record = StoredRecord(bytes.fromhex("0006 0001 67"), bytes.fromhex("0000 0000000b 01 05 02 abcd"))
    assert parse(record) == TargetAssignmentMetadata("g", TargetAssignmentMetadataValue(assignment_epoch=11))


@pytest.mark.parametrize("number", [4, 9, 15, 17, 300, -1])
def test_types_that_we_do_not_know_or_that_are_no_longer_used_are_skipped(number):
    assert parse(StoredRecord(number.to_bytes(2, "big", signed=True) + b"\0\x01g", b"whatever")) is None


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("", None, "0 bytes has no type"),
        ("00", None, "1 bytes has no type"),
        ("0001 0001 67", None, "OffsetCommit is corrupt"),
        ("0003 0001 67", "", "no type or version"),
        ("0003 0001 67", "0000 00", "ConsumerGroupMetadata is corrupt"),
        ("0003 0001 67", "0001 00000001 00", "ConsumerGroupMetadata has version 1; we read 0 to 0"),
        ("0001 0001 67 0001 74 00000007", "0005 00", "OffsetCommit has version 5; we read 0 to 4"),
        ("0001 0001 67 0001 74 00000007", "ffff 00", "OffsetCommit has version -1"),
    ],
)
def test_a_corrupt_record_is_refused_and_the_message_says_what_it_was(key, value, problem):
    record = StoredRecord(bytes.fromhex(key), None if value is None else bytes.fromhex(value))
    with pytest.raises(CorruptRecordError, match=problem):
        parse(record)


@examples
@given(
    st.sampled_from([0, 1, 2, 3, 5, 6, 7, 8, 16]), st.binary(max_size=30), st.none() | st.binary(max_size=60)
)
def test_hostile_records_are_parsed_or_refused(number, key, value):
    try:
        parse(StoredRecord(number.to_bytes(2, "big") + key, value and b"\0\0" + value))
    except CorruptRecordError:
        return


offset_values = st.builds(
    OffsetCommitValue, offset=i64, leader_epoch=i32, metadata=names, commit_timestamp=i64,
    expire_timestamp=st.just(-1) | i64, topic_id=st.just(bytes(16)) | ids,
)  # fmt: skip


@given(names, names, i32, offset_values)
def test_the_short_way_to_store_an_offset_gives_the_bytes_of_the_long_one(
    group: str, topic: str, partition: int, value: OffsetCommitValue
) -> None:
    stored = store_offset(group, topic, partition, value)
    assert stored == store(OffsetCommit(group, topic, partition, value))
    assert isinstance(stored, StoredRecord)
    assert parse(stored) == parse_any(stored) == parse(StoredRecord(*stored))
    assert parse(stored._replace(producer_id=7)) == parse_any(stored)


def test_a_name_that_fits_no_record_is_refused_alike_on_both_ways_to_store_an_offset() -> None:
    value = OffsetCommitValue(offset=1, metadata="", commit_timestamp=2)
    for attempt in (store_offset, lambda *entry: store(OffsetCommit(*entry))):
        with pytest.raises(ValueError):
            attempt("g" * 40_000, "t", 0, value)


@given(names, names, i32, offset_values, st.data())
def test_the_short_way_to_read_an_offset_takes_what_the_long_one_takes(
    group: str, topic: str, partition: int, value: OffsetCommitValue, data: st.DataObject
) -> None:
    """Also where bytes were changed, cut off or added."""
    key, encoded, _ = store_offset(group, topic, partition, value)
    assert encoded is not None
    damaged = [bytearray(key), bytearray(encoded)]
    for part in damaged:
        if data.draw(st.booleans()):
            part[data.draw(st.integers(0, len(part) - 1))] = data.draw(st.integers(0, 255))
        part[data.draw(st.integers(0, len(part))) :] = data.draw(st.just(b"") | st.binary(max_size=4))
    record = StoredRecord(bytes(damaged[0]), bytes(damaged[1]))
    assert _parsed(parse, record) == _parsed(parse_any, record)


def _parsed(parser: Callable[[StoredRecord], object], record: StoredRecord) -> object:
    try:
        return parser(record)
    except CorruptRecordError as error:
        return str(error)
