"""A log directory fails: its partitions are offline, the others serve on, and a restart brings all back."""

import errno
import logging

import pytest
from tests.api.asking import BY_NAME, batch, create, fetch, fetch_of, produce, to, values
from tests.api.harness import Client, Machine
from tests.api.test_table import delete_all_of
from tests.log.simdisk import power_loss
from tests.support.groups import find

from ottla.base.errors import ErrorCode
from ottla.base.ids import OFFSETS_TOPIC, ZERO_UUID, TopicPartition
from ottla.broker.effects import CleanLog, SyncLog, TakeOffline
from ottla.log.compaction.task import CleanFailed
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from ottla.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.offset_fetch import OffsetFetchRequest

STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR


def two_disks(**properties: str) -> tuple[Machine, Client]:
    """Topic `t` with partition 0 in /a and partition 1 in /b, a record in each."""
    given = {key.replace("_", "."): properties[key] for key in properties}
    machine = Machine({"log.dirs": "/a,/b", **given})
    client = machine.client()
    create(client, "t", partitions=2)
    assert [machine.broker.store.directory_of(TopicPartition("t", n)) for n in (0, 1)] == ["/a", "/b"]
    produce(client, "t", batch("a"), batch("b"))
    return machine, client


def codes(client: Client, *, partition: int) -> set[int]:
    """What every request that reads or writes a partition is answered."""
    both = to("t", batch("x"), batch("y"))
    produced = client.send(both, BY_NAME).responses[0].partition_responses[partition].error_code
    fetched = fetch(client, "t", partition=partition).error_code
    earliest = ListOffsetsPartition(partition_index=partition, timestamp=-2)
    listed = client.send(
        ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[earliest])])
    )
    deleted = delete_all_of("t")
    deleted.topics[0].partitions[0].partition_index = partition
    return {
        produced,
        fetched,
        listed.topics[0].partitions[0].error_code,
        client.send(deleted).topics[0].partitions[0].error_code,
    }


@pytest.mark.parametrize("operation", ["append", "open", "write_atomic"])
def test_a_write_that_fails_takes_its_directory_offline_and_no_other(operation: str) -> None:
    machine, client = two_disks(log_segment_bytes="200")
    machine.disk.fail(operation, errno.EIO, "/a/t-0")
    answer = client.send(to("t", batch("c" * 90), batch("d")), BY_NAME).responses[0].partition_responses
    assert [one.error_code for one in answer] == [STORAGE_ERROR, ErrorCode.NONE]
    assert machine.halted == []
    assert codes(client, partition=0) == {STORAGE_ERROR}
    assert values(fetch(client, "t", partition=1)) == ["b", "d"]
    assert values(fetch(client, "t", 2, partition=1)) == ["y"]
    assert machine.broker.store.offline.keys() == {"/a"}
    assert all(not file.path.startswith("/a/") for file in machine.disk.open_files)


def test_a_batch_whose_write_failed_is_never_seen_and_what_was_there_comes_back() -> None:
    machine, client = two_disks()
    machine.disk.break_down("/a", errno.ENOSPC)
    assert produce(client, "t", batch("lost")).error_code == STORAGE_ERROR
    machine.pass_time(60_000)
    machine.disk.repair()
    assert codes(client, partition=0) == {STORAGE_ERROR}, "a disk that seems well again is not trusted"
    machine.restart()
    client = machine.client()
    assert values(fetch(client, "t")) == ["a"]
    assert machine.broker.partitions[TopicPartition("t", 0)].leader_epoch == 1
    assert produce(client, "t", batch("again")).base_offset == 1


@pytest.mark.parametrize("is_whole", [False, True])
def test_a_directory_that_fails_while_it_is_closed_is_recovered_and_the_others_need_not_be(
    is_whole: bool,
) -> None:
    machine, _ = two_disks()
    machine.disk.break_down("/a" if is_whole else "/a/t-0", errno.EIO)
    machine.stop()
    machine.disk.repair()
    machine.start()
    store = machine.broker.store
    assert [store.logs[TopicPartition("t", n)].report.clean for n in (0, 1)] == [False, True]
    client = machine.client()
    assert [values(fetch(client, "t", partition=n)) for n in (0, 1)] == [["a"], ["b"]]


def test_a_read_that_fails_wakes_who_waits_for_the_same_directory() -> None:
    machine, client = two_disks()
    other = machine.client()
    pending = other.ask(fetch_of(("t", 0, 1), max_wait_ms=10_000), BY_NAME)
    assert pending.answer is None
    machine.disk.break_down("/a", errno.EIO)
    assert fetch(client, "t").error_code == STORAGE_ERROR
    assert pending.answer.responses[0].partitions[0].error_code == STORAGE_ERROR
    assert values(fetch(client, "t", partition=1)) == ["b"]


def test_a_sync_that_fails_is_not_tried_again_and_what_it_was_for_is_not_acknowledged() -> None:
    machine, client = two_disks(log_flush_interval_messages="1")
    machine.disk.syncs.clear()
    machine.disk.fail("sync", errno.EIO, "/a/t-0")
    pending = client.ask(to("t", batch("c")), BY_NAME)
    assert pending.answer.responses[0].partition_responses[0].error_code == STORAGE_ERROR
    machine.pass_time(60_000)
    assert not any(path.startswith("/a/t-0") for path in machine.disk.syncs)
    assert all(not file.path.startswith("/a/") for file in machine.disk.open_files)
    machine.crash(power_loss)
    assert values(fetch(machine.client(), "t")) == ["a"]


def test_a_sync_that_comes_back_after_its_directory_failed_changes_nothing() -> None:
    machine, client = two_disks(log_flush_interval_messages="1")
    machine.hold(SyncLog)
    pending = client.ask(to("t", batch("c")), BY_NAME)
    machine.broker.on_directory_failed("/a", "it burns", machine.now_ms)
    machine.carry_out()
    assert pending.answer.responses[0].partition_responses[0].error_code == STORAGE_ERROR
    machine.release()
    assert codes(client, partition=0) == {STORAGE_ERROR}
    assert all(not file.path.startswith("/a/") for file in machine.disk.open_files)


@pytest.mark.parametrize(
    ("operation", "path"),
    [("write_atomic", "/a/replication-offset-checkpoint"), ("rename", "/a/t-0"), ("remove", "/a/t-0")],
)
def test_the_work_of_a_tick_goes_on_in_the_other_directories(operation: str, path: str) -> None:
    machine, client = two_disks(log_segment_bytes="200", log_retention_bytes="200")
    for _ in range(3):
        produce(client, "t", batch("x" * 90), batch("y" * 90))
    machine.disk.fail(operation, errno.EIO, path)
    machine.pass_time(400_000)
    machine.pass_time(400_000)
    assert machine.broker.store.offline.keys() == {"/a"}
    assert machine.halted == []
    assert machine.broker.partitions[TopicPartition("t", 1)].log.log_start_offset > 0
    assert machine.disk.exists("/b/replication-offset-checkpoint")
    assert not any(".deleted" in name for name in machine.disk.list("/b/t-1"))


def test_metadata_shows_the_replica_as_offline_and_the_partition_without_a_leader() -> None:
    machine, client = two_disks()
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    before = client.send(asked).topics[0].partitions
    assert [(one.error_code, one.leader_id) for one in before] == [(0, 1), (0, 1)]
    machine.broker.on_directory_failed("/a", "it burns", machine.now_ms)
    paged = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")])
    for answer in (client.send(asked), client.send(paged)):
        shown = [(one.error_code, one.leader_id, one.offline_replicas) for one in answer.topics[0].partitions]
        assert shown == [(ErrorCode.LEADER_NOT_AVAILABLE, -1, [1]), (ErrorCode.NONE, 1, [])]


def test_describe_log_dirs_names_the_directory_that_failed() -> None:
    machine, client = two_disks()
    machine.broker.on_directory_failed("/a", "it burns", machine.now_ms)
    results = client.send(DescribeLogDirsRequest(topics=None)).results
    assert [(one.log_dir, one.error_code, len(one.topics)) for one in results] == [
        ("/a", STORAGE_ERROR, 0),
        ("/b", ErrorCode.NONE, 1),
    ]


def test_new_partitions_go_to_the_directories_that_live() -> None:
    machine, client = two_disks()
    machine.disk.break_down("/a", errno.EROFS)
    create(client, "u", partitions=3)
    homes = {machine.broker.store.directory_of(TopicPartition("u", n)) for n in range(3)}
    assert homes == {"/b"}
    assert codes(client, partition=0) == {STORAGE_ERROR}
    assert produce(client, "u", *[batch()] * 3).error_code == ErrorCode.NONE


def test_a_topic_made_anew_while_its_directory_was_away_keeps_its_new_records() -> None:
    machine, client = two_disks()
    machine.broker.on_directory_failed("/a", "it burns", machine.now_ms)
    gone = client.send(
        DeleteTopicsRequest(topics=[DeleteTopicState(name="t", topic_id=ZERO_UUID)], timeout_ms=1000)
    )
    assert gone.responses[0].error_code == ErrorCode.NONE
    create(client, "t")
    produce(client, "t", batch("new"))
    machine.restart()
    assert "/a/t-0: t-0 is also in /b; this copy is ignored" in machine.reports
    client = machine.client()
    assert values(fetch(client, "t")) == ["new"]


def test_the_failure_of_the_last_directory_halts() -> None:
    machine, client = two_disks()
    machine.broker.on_directory_failed("/a", "it burns", machine.now_ms)
    assert machine.halted == []
    machine.disk.fail("append", errno.EIO, "/b/")
    client.send(to("t", batch("x"), batch("y")), BY_NAME)
    assert len(machine.halted) == 1
    assert "the last log directory failed" in machine.halted[0]


def test_groups_that_are_stored_in_it_have_no_coordinator_until_it_is_back() -> None:
    machine, client = two_disks(offsets_topic_num_partitions="2")
    assert client.send(find("g"), 2).error_code == ErrorCode.NONE
    homes = {n: machine.broker.store.directory_of(TopicPartition(OFFSETS_TOPIC, n)) for n in (0, 1)}
    groups: dict[str, str] = {}
    for name in "ghijkl":
        groups.setdefault(homes[machine.broker.coordinators.groups.partition_of(name).partition], name)
    machine.disk.break_down("/a", errno.EIO)
    fetch(client, "t")
    lost, kept = groups["/a"], groups["/b"]
    assert client.send(find(lost), 2).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert client.send(find(kept), 2).error_code == ErrorCode.NONE
    ask = OffsetFetchRequest(group_id=lost, topics=None)
    assert client.send(ask, 5).error_code == ErrorCode.NOT_COORDINATOR
    machine.disk.repair()
    machine.restart()
    client = machine.client()
    assert client.send(find(lost), 2).error_code == ErrorCode.NONE
    assert client.send(ask, 5).error_code == ErrorCode.NONE


def test_at_the_start_a_directory_that_cannot_be_read_is_offline_and_nothing_is_made_in_its_place() -> None:
    machine, _ = two_disks()
    machine.stop()
    machine.disk.break_down("/a", errno.EIO)
    machine.start()
    assert machine.reports[0].startswith("/a is offline: [Errno 5] Input/output error")
    client = machine.client()
    assert codes(client, partition=0) == {STORAGE_ERROR}
    assert values(fetch(client, "t", partition=1)) == ["b", "y"]
    assert not machine.disk.exists("/b/t-0")
    create(client, "u", partitions=2)
    machine.restart()
    assert codes(machine.client(), partition=0) == {STORAGE_ERROR}
    machine.disk.repair()
    machine.restart()
    assert values(fetch(machine.client(), "t")) == ["a"]


def test_without_any_directory_there_is_no_start() -> None:
    machine, _ = two_disks()
    machine.stop()
    machine.disk.break_down("/a", errno.EIO)
    machine.disk.break_down("/b", errno.EIO)
    with pytest.raises(OSError, match="Input/output error: '/b/"):
        machine.start()


@pytest.mark.parametrize(
    ("number", "is_offline"), [(errno.EIO, True), (errno.ENOSPC, False), (errno.EMFILE, False)]
)
def test_a_cleaner_that_finds_the_disk_broken_takes_the_directory_offline(
    number: int, is_offline: bool
) -> None:
    machine, client = two_disks(log_segment_bytes="200", log_cleanup_policy="compact")
    machine.hold(CleanLog)
    for _ in range(4):
        produce(client, "t", batch("x" * 90), batch("y" * 90))
    machine.pass_time(15_000)
    broker = machine.broker
    log = next(iter(broker.store.cleaner._running))
    failed = CleanFailed(reason="could not", errno=number)
    try:
        broker.storage.on_cleaned(log, failed, machine.now_ms)
    except OSError as error:
        broker.storage.failed(error)
    assert [type(one) is TakeOffline for one in broker.outbox.effects] == [True] * is_offline
    machine.carry_out()
    assert bool(broker.store.offline) == is_offline
    assert bool(broker.store.cleaner.uncleanable) != is_offline


def test_it_is_said_once_which_directory_failed_and_why(caplog: pytest.LogCaptureFixture) -> None:
    machine, client = two_disks()
    machine.disk.break_down("/a", errno.EIO)
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            fetch(client, "t")
    (line,) = caplog.messages
    assert line.startswith("/a is offline, with 1 partitions, until the next start: [Errno 5]")
    assert "/a/t-0/00000000000000000000.log" in line
