"""Records that decode and make no sense together: whatever a disk holds, a shard loads or fails, and goes on
answering; nothing but an ApiError comes out of it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.group.forgeries import PASSED_OVER, UNREADABLE
from tests.group.room import Room

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
    store,
)

# Few names, so that records meet.
groups = st.sampled_from(["readers", "g"])
members = st.sampled_from(["m", "n", ""])
maybe = st.sampled_from(["i", "", None])
epochs = st.sampled_from([-(2**31), -2, -1, 0, 1, 7, 2**31 - 1])
times = st.sampled_from([-(2**63), -1, 0, 1_000_000, 2**63 - 1])
blobs = st.sampled_from([b"", b"\0", b"\0\1\0\0\0\1\0\1t\0\0\0\0\0\0\0\0", b"\xff" * 9])
topic_ids = st.sampled_from([b"t" + b"." * 15, b"u" + b"." * 15, bytes(16)])
partitions = st.lists(
    st.builds(TopicPartitions, topic_id=topic_ids, partitions=st.lists(epochs, max_size=2)), max_size=2
)
classic_members = st.builds(
    ClassicMemberMetadata,
    session_timeout_ms=epochs,
    supported_protocols=st.lists(
        st.builds(ClassicProtocol, name=st.sampled_from(["range", ""]), metadata=blobs), max_size=2
    ),
)
entries = st.one_of(
    st.builds(
        OffsetCommit,
        groups,
        st.sampled_from(["t", "u", "gone", ""]),
        epochs,
        st.none()
        | st.builds(
            OffsetCommitValue,
            offset=times,
            metadata=maybe.map(str),
            commit_timestamp=times,
            expire_timestamp=times,
        ),
    ),
    st.builds(
        GroupMetadata,
        groups,
        st.none()
        | st.builds(
            GroupMetadataValue,
            protocol_type=st.sampled_from(["consumer", "", "connect"]),
            generation=epochs,
            protocol=st.sampled_from(["range", "", None]),
            leader=maybe,
            current_state_timestamp=times,
            members=st.lists(
                st.builds(
                    GroupMember,
                    member_id=members,
                    group_instance_id=maybe,
                    client_id=members,
                    client_host=members,
                    rebalance_timeout=epochs,
                    session_timeout=epochs,
                    subscription=blobs,
                    assignment=blobs,
                ),
                max_size=3,
            ),
        ),
    ),
    st.builds(
        ConsumerGroupMetadata,
        groups,
        st.none() | st.builds(ConsumerGroupMetadataValue, epoch=epochs, metadata_hash=times),
    ),
    st.builds(
        ConsumerGroupMember,
        groups,
        members,
        st.none()
        | st.builds(
            ConsumerGroupMemberValue,
            instance_id=maybe,
            rack_id=maybe,
            client_id=members,
            client_host=members,
            subscribed_topic_names=st.lists(st.sampled_from(["t", "u", ""]), max_size=2),
            subscribed_topic_regex=st.sampled_from([None, "", "t.*", "(", "(.?){999}b"]),
            rebalance_timeout_ms=epochs,
            server_assignor=st.sampled_from([None, "range", "uniform", "none such"]),
            classic_member_metadata=st.none() | classic_members,
        ),
    ),
    st.builds(
        TargetAssignmentMetadata,
        groups,
        st.none() | st.builds(TargetAssignmentMetadataValue, assignment_epoch=epochs),
    ),
    st.builds(
        TargetAssignmentMember,
        groups,
        members,
        st.none() | st.builds(TargetAssignmentMemberValue, topic_partitions=partitions),
    ),
    st.builds(
        CurrentMemberAssignment,
        groups,
        members,
        st.none()
        | st.builds(
            CurrentMemberAssignmentValue,
            member_epoch=epochs,
            previous_member_epoch=epochs,
            state=st.integers(-128, 127),
            assigned_partitions=partitions,
            partitions_pending_revocation=partitions,
            silent_ms=epochs,
        ),
    ),
    st.builds(
        RegularExpression,
        groups,
        st.sampled_from(["t.*", "(", ""]),
        st.none()
        | st.builds(
            RegularExpressionValue,
            topics=st.lists(st.sampled_from(["t", "gone"]), max_size=2),
            version=times,
            timestamp=times,
        ),
    ),
)


def exercise(room: Room) -> None:
    """Time passes, members come, commit and go, for as long as the shard is there."""
    room.advance(700_000)
    for group in ("readers", "g"):
        for _ in range(2):
            room.join(group=group)
            room.join("m", group=group)
            room.sync("m", 1, {"m": b""}, group=group)
            room.consume("m", 0, group=group)
            room.consume("m", 7, {}, group=group)
            room.committing(5, group=group)
            room.committing(5, "m", 7, group=group)
            room.leave("m", group=group)
            room.advance(70_000)
        room.shard.listed()
    room.advance(700_000)


@settings(max_examples=150, deadline=None)
@given(st.lists(entries.map(store), min_size=1, max_size=8))
def test_whatever_decodes_can_be_loaded_or_refused_and_lived_with(stored: list[StoredRecord]) -> None:
    room = Room(checks=False)
    room.journal.append(stored, 0, 0)
    room.restart()
    if 0 in room.runtime.shards:
        exercise(room)
    else:
        assert room.runtime.failed[0].unreadable


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=40), st.none() | st.binary(max_size=60))
def test_whatever_bytes_a_record_has_they_end_nothing(key: bytes, value: bytes | None) -> None:
    room = Room(checks=False)
    room.journal.append([StoredRecord(key, value)], 0, 0)
    room.restart()
    assert 0 in room.runtime.shards or room.runtime.failed[0].unreadable[0].offset == 0


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_is_wrong_with_a_record_is_said_in_words(name: str) -> None:
    room = Room(checks=False)
    room.journal.append([UNREADABLE[name]], 0, 0)
    room.restart()
    (unreadable,) = room.runtime.failed[0].unreadable
    assert "Error(" not in unreadable.problem


@pytest.mark.parametrize("name", PASSED_OVER)
def test_what_means_nothing_does_no_harm(name: str) -> None:
    room = Room(checks=False)
    room.journal.append([PASSED_OVER[name]], 0, 0)
    room.restart()
    assert room.shard.groups == {}
