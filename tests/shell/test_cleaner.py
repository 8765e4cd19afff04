"""The cleaner's child process, its parent, and the rate it keeps to."""

import asyncio
import contextlib
import errno
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest
from tests.kafka_clients.harness import is_gone, wait_for

from ottla.base.files import OsFiles
from ottla.base.ids import TopicPartition
from ottla.log.compaction.cleaner import Cleaner
from ottla.log.compaction.task import CleanFailed, CleanOutcome, CleanResult, CleanTask
from ottla.log.config import LogConfig, StoreConfig
from ottla.log.log import Log
from ottla.records.builder import NewRecord, build_batch
from ottla.shell.cleaner import NICENESS, BackgroundSyncs, Cleaners, Throttle


def made(folder: Path) -> tuple[Log, CleanTask]:
    """A log on a real disk with two records of one key, and the task to clean it."""
    config = LogConfig(cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.0)
    log = Log.open(OsFiles(), str(folder / "t-0"), TopicPartition("t", 0), config, now_ms=0)
    for value in (b"1", b"2"):
        batch = build_batch([NewRecord(b"k", value, (), 5)])
        log.append(memoryview(batch), leader_epoch=0, now_ms=0)
    log.roll(0)
    log.flush()
    ((_, task),) = Cleaner({log.topic_partition: log}).next_tasks(StoreConfig(), lambda _: 2, 0, 0)
    return log, task


def run(task: CleanTask) -> CleanOutcome:
    async def go() -> CleanOutcome:
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        cleaners = Cleaners(loop)
        cleaners.submit(task, done.set_result)
        outcome = await asyncio.wait_for(done, 30)
        cleaners.close()
        return outcome

    return asyncio.run(go())


def test_a_child_cleans_and_says_what_it_did(tmp_path: Path) -> None:
    log, task = made(tmp_path)
    outcome = run(task)
    log.close()
    assert isinstance(outcome, CleanResult)
    assert (outcome.end_offset, outcome.stats.records_read, outcome.stats.records_written) == (2, 2, 1)
    assert os.path.exists(log.segments[0].path() + ".cleaned")


def test_damage_and_trouble_with_the_disk_are_told_apart(tmp_path: Path) -> None:
    log, task = made(tmp_path)
    log.close()
    path = Path(log.segments[0].path())
    data = bytearray(path.read_bytes())
    data[65] ^= 1
    path.write_bytes(data)
    outcome = run(task)
    assert isinstance(outcome, CleanFailed)
    assert outcome.damaged
    assert str(path) in outcome.reason
    path.unlink()
    outcome = run(task)
    assert isinstance(outcome, CleanFailed)
    assert not outcome.damaged


def test_a_child_that_is_stopped_is_a_failure_and_not_an_exception(tmp_path: Path) -> None:
    log, task = made(tmp_path)
    log.close()

    async def go() -> CleanOutcome:
        loop = asyncio.get_running_loop()
        cleaners = Cleaners(loop)
        cleaners.close()
        return await asyncio.to_thread(cleaners.run, task)

    outcome = asyncio.run(go())
    assert isinstance(outcome, CleanFailed)
    assert "ended with" in outcome.reason


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_a_child_whose_parent_is_gone_when_it_is_done_says_nothing(tmp_path: Path) -> None:
    log, task = made(tmp_path)
    log.close()
    command = [sys.executable, "-c", "from ottla.shell.cleaner import main; main()"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    reading, writing = os.pipe()
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=writing, stderr=subprocess.PIPE, env=environment
    ) as child:
        os.close(writing)
        os.close(reading)  # nobody will read the answer
        assert child.stdin is not None
        child.stdin.write(pickle.dumps(task))
        child.stdin.flush()
        assert child.wait(30) == 0
        assert child.stderr is not None
        assert child.stderr.read() == b""


def test_the_throttle_keeps_to_its_rate_and_saves_up_no_more_than_a_second() -> None:
    time = Time()
    throttle = Throttle(1000, lambda: False, time.clock, time.sleep)
    for _ in range(10):
        throttle(500)
    assert time.now == pytest.approx(5)
    time.now += 60
    throttle(1000)
    assert time.now == pytest.approx(65)
    throttle(1000)
    assert time.now == pytest.approx(66)


def test_the_throttle_ends_a_child_whose_parent_is_gone() -> None:
    time = Time()
    throttle = Throttle(1.0, lambda: time.now > 1, time.clock, time.sleep)
    with pytest.raises(SystemExit):
        throttle(1000)
    assert time.now < 2


ORPHANING = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "from ottla.shell.cleaner import main; main()"],
                         stdin=subprocess.PIPE)
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it has to notice by itself")
def test_a_cleaner_that_stands_still_dies_with_its_broker() -> None:
    """It might wake up later, among the files of the next broker."""
    with subprocess.Popen([sys.executable, "-c", ORPHANING], stdout=subprocess.PIPE, text=True) as broker:
        assert broker.stdout is not None
        cleaner = psutil.Process(int(broker.stdout.readline()))
        try:
            niceness = min(psutil.Process().nice() + NICENESS, 19)
            wait_for(lambda: cleaner.nice() == niceness, what="its work to begin")
            cleaner.suspend()
            broker.kill()
            wait_for(lambda: is_gone(cleaner), what="the cleaner to go")
        finally:
            broker.kill()
            with contextlib.suppress(psutil.NoSuchProcess):
                cleaner.kill()


class Recorded:
    """A file that can be synced once it is let go, and notes that it was."""

    def __init__(self, name: str, synced: list[str], error: OSError | None = None) -> None:
        self.name = name
        self.synced = synced
        self.error = error
        self.may_go = threading.Event()

    def sync(self) -> None:
        assert self.may_go.wait(30)
        self.synced.append(self.name)
        if self.error is not None:
            raise self.error


def test_files_are_synced_in_their_order_while_the_cleaning_goes_on() -> None:
    synced: list[str] = []
    files = [Recorded(name, synced) for name in ("log", "index", "folder")]
    with contextlib.closing(BackgroundSyncs()) as syncs:
        for file in files:
            syncs.begin(file)
        assert synced == []
        for file in files:
            file.may_go.set()
        syncs.finish()
        assert synced == ["log", "index", "folder"]


def test_a_sync_that_failed_is_heard_of_when_all_is_finished() -> None:
    synced: list[str] = []
    files = [Recorded("log", synced, OSError(errno.EIO, "broken")), Recorded("index", synced)]
    with contextlib.closing(BackgroundSyncs()) as syncs:
        for file in files:
            syncs.begin(file)
        for file in files:
            file.may_go.set()
        with pytest.raises(OSError, match="broken"):
            syncs.finish()
