"""The same log on a real file system: the port's other side."""

import gc
import os

from tests.log.helpers import NOW, put, values

from ottla.base.files import OsFiles
from ottla.base.ids import TopicPartition
from ottla.log.config import LogConfig, StoreConfig
from ottla.log.store import LogStore

T0 = TopicPartition("t", 0)


def opened(path) -> LogStore:
    store = LogStore(OsFiles(), [str(path)], LogConfig(segment_bytes=500, flush_messages=1), StoreConfig())
    store.open_all(NOW, lambda _: {})
    return store


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_store_on_disk_survives_its_shutdown_and_its_neglect(tmp_path):
    gc.collect()  # what earlier tests left is not closed in the midst of this one
    before = descriptors()
    store = opened(tmp_path)
    log = store.create(T0, bytes(range(16)), store.config, NOW)
    for number in range(20):
        put(log, f"{number:03}")
        for due, sync in store.due_syncs(NOW):
            for file in sync.files:
                file.sync()
            due.on_synced(sync, NOW)
    assert log.safe_end == 20
    store.close()
    assert descriptors() == before
    store = opened(tmp_path)
    log = store.logs[T0]
    assert values(log) == [f"{number:03}" for number in range(20)]
    put(log, "tail")
    log.abandon()
    last = max((tmp_path / "t-0").glob("*.log"))
    last.write_bytes(last.read_bytes()[:-1])
    store = opened(tmp_path)
    assert values(store.logs[T0]) == [f"{number:03}" for number in range(20)]
    store.logs[T0].truncate_to(5, NOW)
    store.on_tick(NOW + 10**9, {T0: 5})
    store.delete(T0, NOW)
    store.on_tick(NOW + 10**10, {})
    assert list(tmp_path.glob("t-0*")) == []
    assert descriptors() == before
