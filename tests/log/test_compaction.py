"""Which log is cleaned when, and what becomes of a cleaning that fails."""

from tests.log.cleaning_helpers import COMPACT, close_segment, compact, place, running, write
from tests.log.helpers import NOW, open_log
from tests.log.simdisk import SimDisk

from ottla.base.config import LONG_MAX
from ottla.base.ids import TopicPartition
from ottla.log import checkpoint_format
from ottla.log.compaction.cleaner import Cleaner
from ottla.log.compaction.policy import dirtiest, measure
from ottla.log.compaction.rewrite import clean
from ottla.log.compaction.task import CleanFailed
from ottla.log.config import LogConfig, StoreConfig
from ottla.log.log import Log
from ottla.log.store import LogStore

LAZY = COMPACT | {"min_cleanable_dirty_ratio": 0.5}


def filled(count: int = 3, **config) -> Log:
    """A log with that many closed segments of one record each, and an active one."""
    log = open_log(SimDisk(), **(LAZY | config))
    for n in range(count):
        write(log, ("k", str(n)), at=NOW + 10 * n)
        close_segment(log)
    write(log, ("k", "active"))
    return log


def dirt(log: Log, stable: int = LONG_MAX, at: int = NOW + 100):
    return measure(log, stable, at)


def test_closed_segments_are_dirty_and_the_active_one_is_not_counted():
    log = filled()
    found = dirt(log)
    assert (found.first_dirty, found.upper) == (0, 3)
    assert (found.clean_bytes, found.dirty_bytes, found.ratio) == (
        0,
        sum(s.size for s in log.segments[:3]),
        1.0,
    )
    assert found.is_due
    log.cleaned_to = 2
    found = dirt(log)
    assert (found.first_dirty, found.upper) == (2, 3)
    assert round(found.ratio, 2) == 0.33
    assert not found.is_due
    log.cleaned_to = 3
    assert dirt(log).dirty_bytes == 0
    assert not dirt(log).is_due


def test_nothing_is_cleaned_above_the_last_stable_offset():
    assert dirt(filled(), stable=2).upper == 2
    assert dirt(filled(), stable=0).dirty_bytes == 0


def test_nothing_is_cleaned_that_is_not_on_disk():
    log = filled(2)
    log.roll(NOW)
    assert dirt(log).upper == 2


def test_records_younger_than_the_shortest_lag_are_left_alone():
    log = filled(min_compaction_lag_ms=1000)
    assert dirt(log, at=NOW + 999).upper == 0
    assert dirt(log, at=NOW + 1010).upper == 2
    assert dirt(log, at=NOW + 1020).upper == 3


def test_what_is_older_than_the_longest_lag_is_cleaned_whatever_the_ratio():
    log = filled(max_compaction_lag_ms=5000, min_cleanable_dirty_ratio=1.0)
    assert not dirt(log, at=NOW + 5000).is_due
    found = dirt(log, at=NOW + 5001)
    assert (found.delay_ms, found.is_due) == (1, True)
    log.cleaned_to = 1
    assert not dirt(log, at=NOW + 5010).is_due
    assert dirt(log, at=NOW + 5011).is_due
    untimed = open_log(SimDisk(), **(LAZY | {"max_compaction_lag_ms": 10}))
    write(untimed, ("k", "1"), at=-1)
    close_segment(untimed)
    assert dirt(untimed).delay_ms == 0


def test_a_checkpoint_that_cannot_be_is_replaced_by_the_start_of_the_log():
    log = filled()
    log.cleaned_to = 99
    assert dirt(log).first_dirty == 0
    log.advance_log_start(2)
    log.cleaned_to = 1
    assert dirt(log).first_dirty == 2


def test_an_empty_log_is_not_dirty():
    log = open_log(SimDisk(), **COMPACT)
    assert dirt(log).ratio == 0.0
    assert dirtiest([dirt(log)]) is None


def named(name: str, count: int, cleaned_to: int, disk: SimDisk, **config) -> Log:
    log = Log.open(
        disk, f"/data/{name}-0", TopicPartition(name, 0), LogConfig(**(COMPACT | config)), now_ms=NOW
    )
    for n in range(count):
        write(log, ("k", str(n)))
        close_segment(log)
    log.cleaned_to = cleaned_to
    return log


def cleaner_of(*logs: Log) -> Cleaner:
    return Cleaner({log.topic_partition: log for log in logs})


def next_names(cleaner: Cleaner, now_ms: int = NOW, **config) -> list[str]:
    found = cleaner.next_tasks(StoreConfig(**config), lambda log: log.log_end_offset, now_ms, now_ms)
    return [task.name for _, task in found]


def test_the_dirtiest_comes_first_one_at_a_time_or_several():
    disk = SimDisk()
    logs = [named("half", 4, 2, disk), named("all", 2, 0, disk), named("most", 4, 1, disk)]
    logs.append(named("deleted", 4, 0, disk, cleanup_policy=("delete",)))
    cleaner = cleaner_of(*logs)
    ratios = {dirt.log.topic_partition.topic: dirt.ratio for dirt in cleaner.debt(lambda _: 9, NOW)}
    assert round(ratios["all"], 2) == 1.0 == round(max(ratios.values()), 2)
    assert next_names(cleaner) == ["all-0"]
    assert [task.name for task in running(cleaner)] == ["all-0"]
    assert next_names(cleaner, cleaner_threads=2) == []
    assert next_names(cleaner, NOW + 15_000, cleaner_threads=2) == ["most-0"]
    for log in logs:
        log.abort_work = None
    assert next_names(cleaner_of(*logs), cleaner_threads=9) == ["all-0", "most-0", "half-0"]
    assert next_names(cleaner_of(*logs), cleaner_enable=False) == []
    assert [dirt.log.topic_partition.topic for dirt in cleaner.debt(lambda _: 9, NOW)] == [
        "half",
        "all",
        "most",
    ]


def test_after_a_cleaning_the_next_is_looked_for_at_once():
    disk = SimDisk()
    one, two = named("one", 4, 0, disk), named("two", 4, 1, disk)
    cleaner = cleaner_of(one, two)
    ((log, task),) = cleaner.next_tasks(StoreConfig(), lambda log: log.log_end_offset, NOW, NOW)
    assert log is one
    assert next_names(cleaner, NOW + 1) == []
    place(cleaner, one, clean(disk, task))
    assert next_names(cleaner, NOW + 2) == ["two-0"]
    assert cleaner.progress.cleanings == 1
    assert (cleaner.progress.records_read, cleaner.progress.records_written) == (4, 1)
    assert 0 < cleaner.progress.map_utilization_max < 1
    assert cleaner.progress.bytes_written < cleaner.progress.bytes_read


def test_damage_takes_a_log_off_the_list_and_other_failures_are_tried_again():
    disk = SimDisk()
    bad, full = named("bad", 2, 0, disk), named("full", 3, 1, disk)
    cleaner, config = cleaner_of(bad, full), StoreConfig()
    assert next_names(cleaner) == ["bad-0"]
    cleaner.on_failed(bad, CleanFailed(reason="wrong checksum", damaged=True), config, NOW)
    assert next_names(cleaner, NOW + 1) == ["full-0"]
    cleaner.on_failed(full, CleanFailed(reason="no space left"), config, NOW)
    assert next_names(cleaner, NOW + 20_000) == []
    assert {str(id): failure.reason for id, failure in cleaner.uncleanable.items()} == {
        "bad-0": "wrong checksum",
        "full-0": "no space left",
    }
    assert next_names(cleaner, NOW + 150_000) == ["full-0"]
    place(cleaner, full, clean(disk, running(cleaner)[0]))
    assert [str(id) for id in cleaner.uncleanable] == ["bad-0"]
    assert next_names(cleaner, NOW + 10**12) == []
    cleaner.forget(bad)
    assert cleaner.uncleanable == {}


# -- the store ------------------------------------------------------------------------------------


def store_of(disk: SimDisk, **config) -> LogStore:
    store = LogStore(disk, ["/data"], LogConfig(**COMPACT, file_delete_delay_ms=1000), StoreConfig(**config))
    store.open_all(NOW, lambda _: {})
    return store


def run(store: LogStore, now_ms: int = NOW) -> int:
    count = 0
    for log, task in store.next_cleanings(lambda log: log.log_end_offset, now_ms):
        wants_sync = store.on_cleaned(log, clean(store.disks["/data"], task), now_ms)
        while wants_sync:
            log.files.syncable(log.directory).sync()
            wants_sync = store.on_folder_synced(log, now_ms)
        count += 1
    return count


def test_a_store_cleans_remembers_how_far_and_removes_old_files_after_their_delay():
    disk = SimDisk()
    store = store_of(disk)
    log = store.create(TopicPartition("t", 0), b"i" * 16, store.config, NOW)
    for n in range(5):
        write(log, ("k", str(n)))
        close_segment(log)
    assert run(store) == 1
    assert disk.read(f"/data/{checkpoint_format.CLEANER_OFFSETS}") == b"0\n1\nt 0 5\n"
    assert any(name.endswith(".deleted") for name in disk.nodes)
    store.on_tick(NOW + 1000, {})
    assert not any(name.endswith(".deleted") for name in disk.nodes)
    assert run(store, NOW + 1) == 0
    disk.crash()
    store = store_of(disk)
    assert store.logs[TopicPartition("t", 0)].cleaned_to == 5
    assert run(store) == 0


def test_a_store_reports_a_cleaning_that_failed_and_forgets_one_whose_log_is_gone():
    disk = SimDisk()
    store = store_of(disk)
    logs = [store.create(TopicPartition(name, 0), b"i" * 16, store.config, NOW) for name in "ab"]
    for log in logs:
        write(log, ("k", "1"), ("k", "2"))
        close_segment(log)
    ((log, task),) = store.next_cleanings(lambda log: log.log_end_offset, NOW)
    assert not store.on_cleaned(log, CleanFailed(reason="killed"), NOW)
    assert store.cleaner.uncleanable[log.topic_partition].reason == "killed"
    ((other, task),) = store.next_cleanings(lambda log: log.log_end_offset, NOW)
    assert other is not log
    result = clean(disk, task)
    store.delete(other.topic_partition, NOW)
    assert not store.on_cleaned(other, result, NOW)
    assert store.cleaner.progress.cleanings == 0
    store.close()


def test_a_store_that_stops_while_it_swaps_goes_on_after_the_start():
    disk = SimDisk()
    store = store_of(disk)
    log = store.create(TopicPartition("t", 0), b"i" * 16, store.config, NOW)
    for n in range(4):
        write(log, ("k", str(n)))
        close_segment(log)
    ((_, task),) = store.next_cleanings(lambda log: log.log_end_offset, NOW)
    assert store.on_cleaned(log, clean(disk, task), NOW)
    store.close()
    store = store_of(disk)
    log = store.logs[log.topic_partition]
    assert [segment.base_offset for segment in log.segments] == [0, 4]
    assert log.cleaned_to == 0
    assert compact(log) is not None
