"""OffsetCommit: a code for every partition; what is kept; who may."""

import pytest
from tests.api.asking import ask_for_two_in_sync
from tests.api.groups import broker, committed, flush_every_commit, lead_offsets, shard_of, stable, versions
from tests.support.groups import G, codes, committing, consuming, fetching, joining

from ottla.api.offset_commit import RETENTION_MS_MAX
from ottla.base.errors import ErrorCode
from ottla.base.ids import OFFSETS_TOPIC
from ottla.broker.effects import SyncLog
from ottla.controller import znodes
from ottla.controller.keeper import Delete, Put
from ottla.wire.messages.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic

HOUR_MS = 3_600_000


@pytest.mark.parametrize("version", versions(8))
def test_an_offset_is_committed_in_every_version(version: int) -> None:
    _, client, topic_id = broker()
    request = committing(5, topic=topic_id if version >= 10 else "t", partitions=(0, 1), metadata="note")
    answer = client.send(request, version)
    assert codes(answer) == [ErrorCode.NONE, ErrorCode.NONE]
    (topic,) = answer.topics
    assert (topic.name, topic.topic_id) == (("", topic_id) if version >= 10 else ("t", bytes(16)))
    (found,) = client.send(fetching(1), 5).topics[0].partitions
    assert (found.committed_offset, found.metadata) == (5, "note")
    assert found.committed_leader_epoch == (4 if version >= 6 else -1)


def test_each_partition_has_its_own_error_and_the_others_are_committed() -> None:
    _, client, _ = broker()
    request = committing(5, partitions=(0, 2))
    request.topics.append(
        OffsetCommitRequestTopic(
            name="none", partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
        )
    )
    request.topics.append(
        OffsetCommitRequestTopic(
            name="t",
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=1, committed_offset=1, committed_metadata="x" * 4097
                )
            ],
        )
    )
    assert codes(client.send(request, 9)) == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
    ]
    assert (committed(client), committed(client, partition=1)) == (5, -1)


def test_an_unknown_topic_id_is_told_apart_from_an_unknown_partition() -> None:
    _, client, topic_id = broker()
    assert codes(client.send(committing(5, topic=b"u" * 16), 10)) == [ErrorCode.UNKNOWN_TOPIC_ID]
    assert codes(client.send(committing(5, topic=bytes(16)), 10)) == [ErrorCode.UNKNOWN_TOPIC_ID]
    assert codes(client.send(committing(5, topic=topic_id, partitions=(7,)), 10)) == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    ]


def test_a_commit_of_nothing_that_is_there_makes_no_group() -> None:
    machine, client, _ = broker()
    client.send(committing(5, topic="none"), 9)
    assert client.send(committing(5, topic="none", member="m", epoch=3), 9).topics[0].name == "none"
    assert shard_of(machine).groups == {}


def test_metadata_may_be_as_long_as_configured_counted_in_characters() -> None:
    _, client, _ = broker(offset_metadata_max_bytes="8")
    assert codes(client.send(committing(1, metadata="éééééééé"), 9)) == [ErrorCode.NONE]
    assert codes(client.send(committing(2, metadata="123456789"), 9)) == [ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert codes(client.send(committing(3, metadata=None), 9)) == [ErrorCode.NONE]
    (found,) = client.send(fetching(), 5).topics[0].partitions
    assert (found.committed_offset, found.metadata) == (3, "")


@pytest.mark.parametrize(
    ("member", "epoch", "code"),
    [
        ("it", 1, ErrorCode.NONE),
        ("it", 0, ErrorCode.ILLEGAL_GENERATION),
        ("nobody", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
@pytest.mark.parametrize("version", [2, 9])
def test_a_live_classic_group_is_committed_to_by_its_members_only(
    member: str, epoch: int, code: ErrorCode, version: int
) -> None:
    machine, client, _ = broker()
    it = stable(machine, client)
    request = committing(5, member=it if member == "it" else member, epoch=epoch, partitions=(0, 7))
    assert codes(client.send(request, version)) == [code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert committed(client) == (5 if code == ErrorCode.NONE else -1)


def test_a_fenced_static_member_may_not_commit() -> None:
    machine, client, _ = broker()
    pending = client.ask(joining(instance="i"), 5)
    machine.pass_time(3_000)
    old = pending.answer.member_id
    assert old.startswith("i-")
    machine.client().ask(joining(instance="i"), 5)
    request = committing(5, member=old, epoch=1, group_instance_id="i")
    assert codes(client.send(request, 7)) == [ErrorCode.FENCED_INSTANCE_ID]


@pytest.mark.parametrize(
    ("version", "code"),
    [(2, ErrorCode.ILLEGAL_GENERATION), (8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)],
)
def test_a_generation_of_a_group_that_is_not_there(version: int, code: ErrorCode) -> None:
    _, client, _ = broker()
    assert codes(client.send(committing(5, member="m", epoch=1), version)) == [code]


def test_a_consumer_group_is_committed_to_in_the_members_epoch() -> None:
    _, client, _ = broker()
    client.send(consuming("m", 0))
    assert codes(client.send(committing(5, member="m", epoch=1), 9)) == [ErrorCode.NONE]
    assert codes(client.send(committing(6, member="m", epoch=2), 9)) == [ErrorCode.STALE_MEMBER_EPOCH]
    assert codes(client.send(committing(6, member="x", epoch=1), 9)) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert codes(client.send(committing(6, member="m", epoch=1), 8)) == [ErrorCode.UNSUPPORTED_VERSION]
    assert committed(client) == 5


def test_a_commit_without_a_group_id_is_refused() -> None:
    _, client, _ = broker()
    assert codes(client.send(committing(5, group=""), 9)) == [ErrorCode.INVALID_GROUP_ID]


@pytest.mark.parametrize("version", [2, 4])
def test_the_retention_of_old_versions_is_kept_with_the_offset(version: int) -> None:
    machine, client, _ = broker(offsets_retention_check_interval_ms="60000")
    client.send(committing(5, retention_time_ms=HOUR_MS), version)
    client.send(committing(6, partitions=(1,)), version)
    machine.restart()
    client = machine.client()
    machine.pass_time(HOUR_MS - 1)
    assert committed(client) == 5
    machine.pass_time(60_000)
    assert (committed(client), committed(client, partition=1)) == (-1, 6)


def test_a_retention_beyond_all_time_is_cut_to_what_fits() -> None:
    machine, client, _ = broker()
    assert codes(client.send(committing(5, retention_time_ms=(1 << 63) - 1), 2)) == [ErrorCode.NONE]
    found = shard_of(machine).offsets.newest(G)["t"][0]
    assert found.expire_timestamp_ms == machine.now_ms + RETENTION_MS_MAX


# Waiting for the watermark


def test_a_commit_waits_until_it_is_safe_and_is_not_told_before() -> None:
    machine, client, _ = broker()
    client.send(committing(5), 9)
    flush_every_commit(machine)
    machine.hold(SyncLog)
    pending = client.ask(committing(6), 9)
    assert pending.answer is None
    other = machine.client()
    assert committed(other) == 5
    machine.release()
    assert codes(pending.answer) == [ErrorCode.NONE]
    assert committed(other) == 6


def test_a_commit_that_does_not_become_safe_in_time_may_or_may_not_have_happened() -> None:
    machine, client, _ = broker(offsets_commit_timeout_ms="700")
    flush_every_commit(machine)
    machine.hold(SyncLog)
    pending = client.ask(committing(6, partitions=(0, 9)), 9)
    machine.pass_time(699)
    assert pending.answer is None
    machine.pass_time(1)
    assert codes(pending.answer) == [
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    machine.release()
    assert committed(machine.client()) == 6


def test_without_enough_replicas_nothing_is_committed() -> None:
    machine, client, _ = broker()
    ask_for_two_in_sync(machine, OFFSETS_TOPIC)
    assert codes(client.send(committing(6), 9)) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert committed(client) == -1


def test_a_commit_too_large_for_the_topic_is_an_error_of_ours() -> None:
    machine, client, _ = broker()
    path = znodes.topic_config_path(OFFSETS_TOPIC)
    machine.write(Put(path, znodes.config_node({"max.message.bytes": "100"})))
    assert codes(client.send(committing(6, metadata="x" * 200), 9)) == [ErrorCode.UNKNOWN_SERVER_ERROR]


def test_a_broker_that_does_not_lead_the_partition_is_not_the_coordinator() -> None:
    machine, client, _ = broker()
    lead_offsets(machine, leader=2, epoch=1)
    assert codes(client.send(committing(6), 9)) == [ErrorCode.NOT_COORDINATOR]
    lead_offsets(machine, leader=1, epoch=2)
    assert codes(client.send(committing(6), 9)) == [ErrorCode.NONE]


def test_before_the_topic_is_there_nobody_is_the_coordinator() -> None:
    machine, client, _ = broker()
    machine.write(Delete(znodes.topic_path(OFFSETS_TOPIC)), Delete(znodes.topic_config_path(OFFSETS_TOPIC)))
    assert codes(client.send(committing(6), 9)) == [ErrorCode.NOT_COORDINATOR]


def test_a_commit_that_waits_when_its_topic_goes_is_told_to_look_again() -> None:
    machine, client, _ = broker()
    flush_every_commit(machine)
    machine.hold(SyncLog)
    pending = client.ask(committing(6), 9)
    machine.write(Delete(znodes.topic_path(OFFSETS_TOPIC)), Delete(znodes.topic_config_path(OFFSETS_TOPIC)))
    assert codes(pending.answer) == [ErrorCode.NOT_COORDINATOR]
