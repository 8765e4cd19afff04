"""All logs of a broker: opening, creating, deleting, checkpoints, and the work of a tick."""

import logging

import pytest
from tests.log.helpers import NOW, append, batch, idempotent, put, values
from tests.log.simdisk import SimDisk, power_loss

from ottla.base.ids import TopicPartition
from ottla.log.config import LogConfig, StoreConfig
from ottla.log.folders import deleted_folder, parse_folder
from ottla.log.store import LogStore
from ottla.log.store_loader import LoadCancelledError

ID = bytes(range(16))
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk()


def opened(disk, *directories, topics=None, now_ms=NOW, config=None, **store_config):
    store = LogStore(disk, directories or ("/data",), config or LogConfig(), StoreConfig(**store_config))
    store.report = store.open_all(now_ms, lambda topic: (topics or {}).get(topic, {}))
    return store


def work(store, now_ms=NOW) -> int:
    """Play the worker thread until nothing is due."""
    count = 0
    while syncs := store.due_syncs(now_ms):
        for log, sync in syncs:
            for file in sync.files:
                file.sync()
            log.on_synced(sync, now_ms)
            count += 1
    return count


def text(disk, name, directory="/data"):
    return disk.read(f"{directory}/{name}").decode()


def test_a_created_partition_has_a_folder_an_id_and_an_empty_log(disk):
    store = opened(disk)
    log = store.create(T0, ID, LogConfig(), NOW)
    assert store.get(T0) is log
    assert store.get(T1) is None
    assert store.topic_id(T0) == ID
    assert store.topic_id(T1) is None
    assert disk.list("/data/t-0") == [f"{0:020}.log", "partition.metadata"]
    with pytest.raises(AssertionError, match="exists"):
        store.create(T0, ID, LogConfig(), NOW)


def test_a_created_partition_becomes_durable_with_its_first_sync(disk):
    store = opened(disk)
    put(store.create(T0, ID, LogConfig(flush_messages=1), NOW), "a")
    work(store)
    disk.crash(power_loss)
    store = opened(disk)
    assert values(store.logs[T0]) == ["a"]
    assert store.topic_id(T0) == ID


def test_partitions_go_to_the_directory_with_the_fewest(disk):
    store = opened(disk, "/a", "/b")
    for number in range(4):
        store.create(TopicPartition("t", number), ID, LogConfig(), NOW)
    assert [store.directory_of(TopicPartition("t", number)) for number in range(4)] == [
        "/a",
        "/b",
        "/a",
        "/b",
    ]


def test_a_clean_shutdown_needs_no_recovery_and_its_marker_is_used_once(disk):
    store = opened(disk)
    put(store.create(T0, ID, LogConfig(), NOW), "a", "b")
    store.high_watermarks[T0] = 2
    store.close()
    assert disk.open_files == []
    assert text(disk, ".kafka_cleanshutdown") == '{"version":0,"brokerEpoch":"-1"}'
    assert text(disk, "recovery-point-offset-checkpoint") == "0\n1\nt 0 2\n"
    assert text(disk, "replication-offset-checkpoint") == "0\n1\nt 0 2\n"
    disk.crash(power_loss)
    store = opened(disk)
    assert store.report.clean == {"/data": True}
    assert [report.segments_scanned for report in store.report.logs] == [0]
    assert not disk.exists("/data/.kafka_cleanshutdown")
    assert store.high_watermarks == {T0: 2}
    assert store.logs[T0].recovery_point == 2
    disk.crash()
    assert opened(disk).report.clean == {"/data": False}


def test_recovery_begins_at_the_checkpoint(disk):
    store = opened(disk)
    log = store.create(T0, ID, LogConfig(flush_messages=5), NOW)
    for number in range(7):
        put(log, str(number))
    work(store)
    store.on_tick(NOW + 60_000, {T0: 7})
    assert text(disk, "recovery-point-offset-checkpoint") == "0\n1\nt 0 7\n"
    put(log, "tail")
    disk.crash()
    size = len(batch("0"))
    disk.flip("/data/t-0/" + f"{0:020}.log", size - 2)
    disk.flip("/data/t-0/" + f"{0:020}.log", len(disk.read("/data/t-0/" + f"{0:020}.log")) - 2)
    store = opened(disk)
    assert store.logs[T0].log_end_offset == 7
    assert store.report.logs[0].bytes_cut == len(batch("tail"))


@pytest.mark.parametrize(
    "name",
    ["recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint"],
)
def test_a_damaged_checkpoint_is_reported_and_does_without(disk, name):
    store = opened(disk)
    put(store.create(T0, ID, LogConfig(), NOW), "a")
    store.close()
    disk.nodes[f"/data/{name}"].data[:] = b"\x00garbage"
    store = opened(disk)
    assert values(store.logs[T0]) == ["a"]
    assert name in store.report.problems[0]


def test_damaged_metadata_is_no_id(disk):
    store = opened(disk)
    store.create(T0, ID, LogConfig(), NOW)
    store.create(T1, ID, LogConfig(), NOW)
    disk.nodes["/data/t-0/partition.metadata"].data[:] = b"?"
    disk.remove("/data/t-1/partition.metadata")
    disk.crash()
    store = opened(disk)
    assert store.topic_id(T0) is None
    assert store.topic_id(T1) is None


def test_a_recovery_point_that_goes_back_is_written_down_at_once(disk):
    store = opened(disk)
    log = store.create(T0, ID, LogConfig(flush_messages=1), NOW)
    for value in "abc":
        put(log, value)
    work(store)
    store.on_tick(NOW + 60_000, {})
    log.truncate_to(1, NOW)
    assert text(disk, "recovery-point-offset-checkpoint") == "0\n1\nt 0 1\n"
    put(log, "x" * 100)
    disk.crash()
    disk.flip(log.active.path(), len(disk.read(log.active.path())) - 2)
    assert values(opened(disk).logs[T0]) == ["a"]


def test_a_log_start_is_remembered_if_no_segment_tells_it(disk):
    store = opened(disk)
    log = store.create(T0, ID, LogConfig(), NOW)
    put(log, "a", "b", "c")
    log.advance_log_start(2)
    store.on_tick(NOW + 60_000, {T0: 3})
    assert text(disk, "log-start-offset-checkpoint") == "0\n1\nt 0 2\n"
    disk.crash()
    assert opened(disk).logs[T0].log_start_offset == 2


def test_topics_are_opened_with_their_own_config(disk):
    store = opened(disk)
    store.create(T0, ID, LogConfig(), NOW)
    store.close()
    store = opened(disk, topics={"t": {"segment.bytes": "1000"}}, config=LogConfig(retention_ms=5))
    assert store.logs[T0].config.segment_bytes == 1000
    assert store.logs[T0].config.retention_ms == 5


def test_a_deleted_partition_frees_its_name_at_once_and_its_files_later(disk):
    store = opened(disk, "/data")
    log = store.create(T0, ID, LogConfig(file_delete_delay_ms=1000), NOW)
    put(log, "old")
    store.delete(T0, NOW)
    assert store.get(T0) is None
    assert disk.open_files == []
    (name,) = [name for name in disk.list("/data") if name.startswith("t-0")]
    assert parse_folder(name) is None
    assert len(name) == len("t-0.") + 32 + len("-delete")
    new = store.create(T0, ID, LogConfig(), NOW)
    assert values(new) == []
    store.on_tick(NOW + 999, {})
    assert name in disk.list("/data")
    store.on_tick(NOW + 1000, {})
    assert name not in disk.list("/data")
    assert work(store) == 1


def test_a_deleted_partitions_sync_may_come_back_late(disk):
    store = opened(disk)
    log = store.create(T0, ID, LogConfig(flush_messages=1), NOW)
    put(log, "a")
    ((_, sync),) = store.due_syncs(NOW)
    store.delete(T0, NOW)
    log.on_synced(sync, NOW)
    assert disk.open_files == []
    assert store.due_syncs(NOW) == []


def test_deleted_folders_are_removed_when_the_store_opens(disk):
    store = opened(disk)
    store.create(T0, ID, LogConfig(), NOW)
    store.delete(T0, NOW)
    disk.crash()
    store = opened(disk)
    assert store.logs == {}
    assert not any(name.endswith("-delete") for name in disk.list("/data"))


def test_a_partition_in_two_directories_is_opened_once(disk):
    store = opened(disk, "/a")
    store.create(T0, ID, LogConfig(), NOW)
    disk.make_directory("/b/t-0")
    disk.make_directory("/b/lost+found")
    store = opened(disk, "/a", "/b")
    assert store.directory_of(T0) == "/a"
    assert "/b/t-0" in store.report.problems[0]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("t-0", ("t", 0)),
        ("my-topic.v1-2024-12", ("my-topic.v1-2024", 12)),
        ("__consumer_offsets-49", ("__consumer_offsets", 49)),
        ("a--1", ("a-", 1)),
        ("t", None),
        ("t-x", None),
        ("-5", None),
        ("meta.properties", None),
        ("t-0.0123456789abcdef0123456789abcdef-delete", None),
    ],
)
def test_folder_names(name, expected):
    assert parse_folder(name) == expected


def test_the_name_of_a_deleted_folder_is_never_too_long():
    name = deleted_folder(TopicPartition("x" * 249, 12345), "0" * 32)
    assert len(name) == 255
    assert name.endswith(f"-12345.{'0' * 32}-delete")


def test_retention_runs_at_its_interval_and_removes_files_after_the_delay(disk):
    config = LogConfig(segment_bytes=100, retention_ms=1000, file_delete_delay_ms=500)
    store = opened(disk, retention_check_interval_ms=2000)
    log = store.create(T0, ID, config, NOW)
    for _ in range(3):
        put(log, "v")
    work(store)
    store.on_tick(NOW + 1999, {T0: 3})
    assert len(log.segments) == 3
    store.on_tick(NOW + 2000, {T0: 3})
    assert len(log.segments) == 1
    assert any(name.endswith(".deleted") for name in disk.nodes)
    store.on_tick(NOW + 2500, {T0: 3})
    assert not any(name.endswith(".deleted") for name in disk.nodes)


def test_what_retention_deleted_is_one_line_with_figures(disk, caplog):
    config = LogConfig(segment_bytes=100, retention_ms=1000)
    store = opened(disk, retention_check_interval_ms=2000)
    logs = [store.create(TopicPartition("t", number), ID, config, NOW) for number in range(3)]
    for log in logs[:2]:
        for _ in range(3):
            put(log, "v")
    work(store)
    sizes = [log.size for log in logs]
    with caplog.at_level(logging.DEBUG, "ottla.log.store"):
        store.on_tick(NOW + 2000, {log.topic_partition: 3 for log in logs})
    freed = sum(sizes) - sum(log.size for log in logs)
    single, total = caplog.records[:2], caplog.records[2]
    assert total.levelno == logging.INFO
    assert total.getMessage() == f"retention: 2 partitions have lost 6 segments, {freed} bytes"
    assert total.fields == {"partitions": 2, "segments": 6, "bytes": freed}
    assert [line.levelno for line in single] == [logging.DEBUG] * 2
    assert single[0].getMessage().startswith("retention: t-0 begins at offset 3, without 3 segments")
    caplog.clear()
    store.on_tick(NOW + 4000, {})
    assert caplog.records == []


def test_files_that_went_with_their_folder_are_not_missed(disk):
    config = LogConfig(segment_bytes=100, retention_ms=1, file_delete_delay_ms=500)
    store = opened(disk, retention_check_interval_ms=2000)
    log = store.create(T0, ID, config, NOW)
    put(log, "v")
    put(log, "v")
    store.on_tick(NOW + 2000, {T0: 2})
    store.delete(T0, NOW + 2000)
    store.on_tick(NOW + 2500, {})
    assert disk.list("/data") == disk.list("/data")
    assert not any("t-0" in name for name in disk.nodes)


def test_without_a_known_high_watermark_nothing_is_deleted(disk):
    store = opened(disk, retention_check_interval_ms=10)
    log = store.create(T0, ID, LogConfig(retention_ms=1, segment_bytes=100), NOW)
    put(log, "v")
    put(log, "v")
    store.on_tick(NOW + 10_000, {})
    assert len(log.segments) == 2


def test_producers_expire_at_their_interval(disk):
    store = opened(disk, producer_id_expiration_ms=1000, producer_id_expiration_check_interval_ms=10)
    log = store.create(T0, ID, LogConfig(), NOW)
    append(log, idempotent(0))
    store.on_tick(NOW + 999, {})
    assert log.producers.by_id
    store.on_tick(NOW + 1009, {})
    assert not log.producers.by_id


def test_high_watermarks_are_written_every_five_seconds_and_only_if_they_changed(disk):
    store = opened(disk)
    store.create(T0, ID, LogConfig(), NOW)
    disk.syncs.clear()
    store.on_tick(NOW + 4999, {T0: 1})
    assert not disk.exists("/data/replication-offset-checkpoint")
    store.on_tick(NOW + 5000, {T0: 1})
    assert text(disk, "replication-offset-checkpoint") == "0\n1\nt 0 1\n"
    disk.remove("/data/replication-offset-checkpoint")
    store.on_tick(NOW + 10_000, {T0: 1})
    assert not disk.exists("/data/replication-offset-checkpoint")
    assert disk.syncs == []
    store.high_watermarks.update({T0: 2, TopicPartition("unknown", 0): 5})
    store.checkpoints.write_high_watermarks()
    assert text(disk, "replication-offset-checkpoint") == "0\n1\nt 0 2\n"


def test_syncs_come_out_when_they_are_due(disk):
    store = opened(disk)
    first = store.create(T0, ID, LogConfig(flush_ms=100), NOW)
    second = store.create(T1, ID, LogConfig(flush_messages=1), NOW)
    work(store)
    assert store.next_sync_ms is None
    append(first, batch("a"), now_ms=NOW)
    put(second, "b")
    assert [log for log, _ in store.due_syncs(NOW)] == [second]
    assert store.next_sync_ms == NOW + 100
    assert [log for log, _ in store.due_syncs(NOW + 100)] == [first]


def test_idle_partitions_cost_a_tick_nothing(disk):
    store = opened(disk)
    for number in range(50):
        store.create(TopicPartition("t", number), ID, LogConfig(), NOW)
        put(store.logs[TopicPartition("t", number)], "v")
    store.close()
    store = opened(disk)
    assert len(store.logs) == 50
    assert store.due_syncs(NOW + 1) == []
    reads = disk.reads
    store.on_tick(NOW + 1, {})
    assert disk.reads == reads
    assert disk.open_files == []


def test_the_report_has_a_line_for_everything_that_was_repaired(disk):
    store = opened(disk)
    put(store.create(T0, ID, LogConfig(), NOW), "a")
    disk.crash()
    assert opened(disk).report.lines() == []
    disk.nodes[f"/data/t-0/{0:020}.log"].data += b"torn"
    disk.write_atomic("/data/replication-offset-checkpoint", b"?")
    problem, repair = opened(disk).report.lines()
    assert "replication-offset-checkpoint" in problem
    assert repair.startswith("t-0: cut off a tail /data/t-0/")


def test_how_many_logs_are_left_to_open_is_told_while_they_are_opened(disk):
    store = opened(disk)
    for partition in range(3):
        put(store.create(TopicPartition("t", partition), ID, LogConfig(), NOW), "a")
    disk.make_directory("/data/t-0.0123456789abcdef0123456789abcdef-delete")
    disk.crash()
    told = []
    store = LogStore(disk, ("/data",), LogConfig(), StoreConfig())
    store.open_all(
        NOW, lambda _topic: told.append((store.progress.opened, dict(store.progress.remaining))) or {}
    )
    assert told == [(0, {"/data": 3}), (1, {"/data": 2}), (2, {"/data": 1})]
    assert (store.progress.opened, store.progress.remaining) == (3, {"/data": 0})


@pytest.mark.parametrize("is_clean", [False, True])
def test_a_recovery_that_is_cancelled_ends_before_the_next_log_and_a_clean_start_goes_on(disk, is_clean):
    store = opened(disk)
    for partition in range(3):
        put(store.create(TopicPartition("t", partition), ID, LogConfig(), NOW), "a")
    if is_clean:
        store.close()
    else:
        disk.crash()
    store = LogStore(disk, ("/data",), LogConfig(), StoreConfig())

    def cancel(_topic):
        store.progress.cancel()
        return {}

    if is_clean:
        store.open_all(NOW, cancel)
        assert len(store.logs) == 3
    else:
        with pytest.raises(LoadCancelledError):
            store.open_all(NOW, cancel)
        assert list(store.logs) == [T0]
        for log in store.logs.values():
            log.abandon()
        assert disk.open_files == []
        assert [values(log) for log in opened(disk).logs.values()] == [["a"]] * 3
