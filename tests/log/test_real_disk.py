"""The same log on a real file system: the port's other side."""

import errno
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


def test_a_real_disk_tells_what_is_in_memory_and_brings_in_what_is_not(tmp_path):
    """Not every file system can tell; then it is read."""
    path, data, files = str(tmp_path / "f"), os.urandom(3 << 20), OsFiles()
    file = files.open(path)
    file.append(data)
    file.sync()
    assert file.read_now(5, 1_000) == data[5:1_005]
    assert file.read_now(len(data) - 10, 100) == data[-10:]
    assert file.read_now(len(data), 100) == b""
    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)
    assert file.read_now(0, len(data)) in (None, data)
    before = descriptors()
    files.warm(path, 0, 1 << 20)
    files.warm(path, 1 << 20, 1 << 31)
    assert descriptors() == before
    assert file.read_now(0, len(data)) == data
    file.close()


def test_a_file_system_that_cannot_tell_is_read_and_not_asked_again(tmp_path, monkeypatch):
    asked, read = [], os.preadv

    def preadv(descriptor, buffers, at, flags):
        if flags:
            asked.append(at)
            raise OSError(errno.EOPNOTSUPP, "not here")
        return read(descriptor, buffers, at)

    monkeypatch.setattr(os, "preadv", preadv)
    file = OsFiles().open(str(tmp_path / "f"))
    file.append(b"0123456789")
    assert [file.read_now(2, 3), file.read_now(5, 3)] == [b"234", b"567"]
    assert len(asked) == 1
    file.close()
