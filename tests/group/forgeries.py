"""Records of `__consumer_offsets` that no broker writes: what a hostile client or a bad disk leaves."""

from struct import pack

from ottla.coordinator.turn import StoredRecord
from ottla.group.records import (
    GroupMember,
    GroupMetadata,
    GroupMetadataValue,
    OffsetCommit,
    OffsetCommitValue,
    store,
)

COMMIT = store(
    OffsetCommit(
        "forged", "t", 0, OffsetCommitValue(offset=3, metadata="", commit_timestamp=1_700_000_000_000)
    )
)


def member(member_id: str, instance_id: str | None = None) -> GroupMember:
    return GroupMember(
        member_id=member_id,
        group_instance_id=instance_id,
        client_id="c",
        client_host="h",
        session_timeout=10_000,
        subscription=b"",
        assignment=b"",
    )


def group(*members: GroupMember, generation: int = 1) -> StoredRecord:
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=generation,
        protocol="range",
        leader=members[0].member_id,
        members=list(members),
    )
    return store(GroupMetadata("forged", value))


def _value() -> bytes:
    assert COMMIT.value is not None
    return COMMIT.value


UNREADABLE = {
    "an empty key": StoredRecord(b"", b"v"),
    "a key of one byte": StoredRecord(b"\0", b"v"),
    "a key that is only a type": StoredRecord(b"\0\1", _value()),
    "a key that is cut off": StoredRecord(COMMIT.key[:-1], _value()),
    "a key whose string is longer than it": StoredRecord(b"\0\2" + pack(">h", 999) + b"g", _value()),
    "a key whose string is no UTF-8": StoredRecord(b"\0\2" + pack(">h", 2) + b"\xff\xfe", _value()),
    "a key whose string is null": StoredRecord(b"\0\2" + pack(">h", -1), _value()),
    "an empty value": StoredRecord(COMMIT.key, b""),
    "a value of one byte": StoredRecord(COMMIT.key, b"\0"),
    "a value that is cut off": StoredRecord(COMMIT.key, _value()[:-1]),
    "a value of an unknown version": StoredRecord(COMMIT.key, b"\x00\x63" + _value()[2:]),
    "a value of a negative version": StoredRecord(COMMIT.key, b"\xff\xff" + _value()[2:]),
    "a group with more members than bytes": StoredRecord(
        store(GroupMetadata("forged", None)).key,
        pack(">h", 3) + b"\0\1c" + pack(">ihhqi", 1, -1, -1, 0, 2**31 - 1),
    ),
    "a group with two members of one static id": group(member("a", "i"), member("b", "i")),
}

PASSED_OVER = {
    "a type of a newer broker": StoredRecord(b"\x00\x63abc", b"anything"),
    "a negative type": StoredRecord(b"\xff\xffabc", b"anything"),
    "a tombstone with an empty key": StoredRecord(b"", None),
    "a tombstone with a key that is cut off": StoredRecord(COMMIT.key[:-1], None),
    "a tombstone of what is not there": StoredRecord(COMMIT.key, None),
}
