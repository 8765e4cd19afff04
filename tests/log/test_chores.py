"""What nobody waits for is done by a worker, and comes back to a store that has gone on meanwhile."""

import errno

from tests.log.helpers import NOW, put, run_syncs
from tests.log.simdisk import SimDisk, power_loss

from ottla.base.ids import TopicPartition
from ottla.log.checkpoint_format import LOG_STARTS, RECOVERY_POINTS
from ottla.log.checkpoints import ASIDE
from ottla.log.chores import Chore, run_at_once
from ottla.log.config import LogConfig, StoreConfig
from ottla.log.directories import LogDirectoryError
from ottla.log.store import TIMES_LOOK_MS, LogStore

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ID = bytes(range(16))
POINTS = f"/data/{RECOVERY_POINTS}"
SETTINGS = LogConfig(file_delete_delay_ms=1000, segment_bytes=300)
MINUTE_MS = 60_000
DAY_MS = 24 * 60 * MINUTE_MS


class World:
    """A store whose chores wait until they are done by hand."""

    def __init__(self, disk: SimDisk | None = None) -> None:
        self.disk = SimDisk() if disk is None else disk
        self.chores: list[Chore] = []
        self.failed: list[LogDirectoryError] = []
        self.store = LogStore(
            self.disk, ["/data"], SETTINGS, StoreConfig(),
            on_failed=self.failed.append, on_chore=self.chores.append,
        )  # fmt: skip
        self.store.open_all(NOW, lambda _: {})

    def work(self) -> None:
        while self.chores:
            run_at_once(self.chores.pop(0))

    def written(self, offset: int = 5) -> None:
        """A log whose recovery point is `offset`."""
        log = self.store.create(T0, ID, SETTINGS, NOW)
        for _ in range(offset):
            put(log, "v")
        log.roll(NOW)
        run_syncs(log)
        assert log.recovery_point == offset

    def points(self) -> str | None:
        node = self.disk.nodes.get(POINTS)
        return None if node is None else bytes(node.data).decode().splitlines()[-1]


def test_a_checkpoint_is_synced_by_a_worker_and_put_into_place_afterwards():
    world = World()
    world.written()
    world.disk.syncs.clear()
    world.store.on_tick(NOW + MINUTE_MS, {})
    assert (world.disk.syncs, world.points()) == ([], None)
    world.work()
    assert world.points() == "t 0 5"
    assert POINTS + ASIDE in world.disk.syncs
    assert POINTS + ASIDE not in world.disk.nodes
    world.disk.crash(power_loss)
    assert world.points() == "t 0 5"


def test_a_checkpoint_whose_name_is_not_synced_yet_leaves_the_one_before_it_if_power_is_lost():
    world = World()
    world.written()
    world.store.checkpoints.write_all()
    put(world.store.logs[T0], "more")
    world.store.logs[T0].roll(NOW)
    run_syncs(world.store.logs[T0])
    world.store.on_tick(NOW + MINUTE_MS, {})
    run_at_once(world.chores.pop(0))
    assert world.points() == "t 0 6"
    world.disk.crash(power_loss)
    assert world.points() == "t 0 5"


def test_a_checkpoint_that_comes_late_takes_the_place_of_nothing_newer():
    world = World()
    world.written()
    world.store.on_tick(NOW + MINUTE_MS, {})
    world.store.logs[T0].truncate_to(2, NOW)  # which must be durable before anything is written there
    assert world.points() == "t 0 2"
    world.work()
    assert world.points() == "t 0 2"


def test_a_checkpoint_is_not_written_twice_at_a_time():
    world = World()
    world.written()
    for minutes in (1, 2, 3):
        world.store.on_tick(NOW + minutes * MINUTE_MS, {})
    assert sum(getattr(chore, "path", None) == POINTS for chore in world.chores) == 1


def test_a_checkpoint_that_a_worker_wrote_is_written_again_before_a_name_is_used_again():
    world = World()
    world.written()
    world.store.on_tick(NOW + MINUTE_MS, {})
    world.work()
    world.store.delete(T0, NOW + MINUTE_MS)
    world.store.create(T0, ID, SETTINGS, NOW + MINUTE_MS)
    world.disk.crash(power_loss)
    assert bytes(world.disk.nodes[POINTS].data).decode().splitlines()[1] in ("0", "1")
    assert "t 0 5" not in bytes(world.disk.nodes[POINTS].data).decode()


def test_a_disk_that_refuses_a_checkpoint_is_reported():
    world = World()
    world.written()
    world.store.on_tick(NOW + MINUTE_MS, {})
    world.disk.fail("write_atomic", errno.EIO, RECOVERY_POINTS)
    world.work()
    assert [failure.directory for failure in world.failed] == ["/data"]


def test_a_checkpoint_of_a_directory_that_is_offline_meanwhile_is_left_alone():
    world = World()
    world.written()
    world.store.on_tick(NOW + MINUTE_MS, {})
    world.store.fail("/data", "it broke")
    world.work()
    assert (world.points(), world.failed) == (None, [])


def test_what_a_crash_leaves_of_a_checkpoint_aside_is_ignored():
    world = World()
    world.written()
    world.store.on_tick(NOW + MINUTE_MS, {})
    for chore in world.chores:
        chore.run()
    world.disk.crash()
    again = World(world.disk)
    assert again.store.logs[T0].log_end_offset == 5
    assert f"/data/{LOG_STARTS}" not in world.disk.nodes


def test_the_indexes_that_say_how_old_segments_are_are_brought_in_by_a_worker():
    world = World()
    world.written(3)
    world.store.close()
    again = World(world.disk)
    world.disk.drop_caches()
    world.disk.waits.clear()
    log = again.store.logs[T0]
    again.store.on_tick(NOW + 8 * DAY_MS, {T0: 3})
    assert (log.log_start_offset, world.disk.waits) == (0, [])
    again.work()
    again.store.on_tick(NOW + 8 * DAY_MS + TIMES_LOOK_MS, {T0: 3})
    assert (log.log_start_offset, world.disk.waits) == (3, [])


def test_files_are_removed_by_a_worker():
    world = World()
    world.written()
    world.store.delete(T0, NOW)
    world.store.on_tick(NOW + 1000, {})
    folders = [path for path in world.disk.folders if path.endswith("-delete")]
    assert len(folders) == 1
    world.work()
    assert [path for path in world.disk.folders if path.endswith("-delete")] == []


def test_what_is_gone_before_the_worker_comes_to_it_is_no_failure():
    world = World()
    world.written()
    log = world.store.logs[T0]
    log.advance_log_start(5)
    log.delete_old_segments(NOW, 5)
    (path, *_) = [path for path in log.deleted if path.endswith(".log.deleted")]
    world.store._trash.add_segments(log, NOW)
    world.store.on_tick(NOW + 1000, {})
    world.disk.remove(path)
    world.work()
    assert world.failed == []
    assert not [name for name in world.disk.nodes if name.endswith(".deleted")]


def test_a_disk_that_refuses_to_remove_something_is_reported_and_what_is_left_is_tried_no_more():
    world = World()
    world.written()
    log = world.store.logs[T0]
    log.advance_log_start(5)
    log.delete_old_segments(NOW, 5)
    world.store._trash.add_segments(log, NOW)
    world.store.on_tick(NOW + 1000, {})
    world.disk.fail("remove", errno.EIO)
    world.work()
    assert [failure.errno for failure in world.failed] == [errno.EIO]
