"""How a broker ends that cannot go on, and what the next start makes of it."""

import asyncio
import errno
import os
import socket
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from tests.kafka_clients.harness import wait_for
from tests.kafka_clients.wire_client import Closed, Wire, batch, fetch_request, produce_request
from tests.shell.test_server import refusal, run, server

from ottla.base.files import OsFile, OsPath
from ottla.base.ids import TopicPartition
from ottla.log.validation import ITEMS_AT_ONCE, LargeCheck
from ottla.records.builder import NewRecord, build_batch
from ottla.shell import descriptors, embedded
from ottla.shell.embedded import EmbeddedBroker
from ottla.shell.server import Server
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

MARKER = ".kafka_cleanshutdown"
RECORD = bytes(batch(b"x"))


def create(wire: Wire, topic: str = "t") -> None:
    wanted = CreatableTopic(name=topic, num_partitions=1, replication_factor=1)
    assert wire.call(CreateTopicsRequest(topics=[wanted]), 5).topics[0].error_code == 0


def connect(broker: EmbeddedBroker) -> Wire:
    return Wire(int(broker.bootstrap_servers.rpartition(":")[2]))


def leader_epoch(one: Server) -> int:
    return one.broker.partitions[TopicPartition("t", 0)].leader_epoch


def crash(data: Path) -> None:
    """Leave what a broker leaves that was killed after it created a topic."""
    with EmbeddedBroker(data=data) as broker, connect(broker) as wire:
        create(wire)
        wire.produce("t", RECORD)
    (data / MARKER).unlink()


def test_a_failed_sync_is_no_clean_stop_and_the_next_start_recovers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_broken = threading.Event()
    sync = OsFile.sync

    def failing(file: OsFile) -> None:
        if is_broken.is_set():
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(file)

    monkeypatch.setattr(OsFile, "sync", failing)
    broker = EmbeddedBroker({"log.flush.interval.messages": "1"}, data=tmp_path).start()
    with connect(broker) as wire:
        create(wire)
        assert wire.produce("t", RECORD).error_code == 0
        is_broken.set()
        with pytest.raises(Closed):
            wire.produce("t", RECORD)
    wait_for(lambda: broker.failure, what="the halt")
    is_broken.clear()  # the disk seems well again, and has lost what it could not write
    broker.stop()
    assert "the last log directory failed: [Errno 5] Input/output error" in str(broker.failure)
    assert not (tmp_path / MARKER).exists()
    again = server(tmp_path)
    run(again)
    assert not again.broker.is_clean
    assert leader_epoch(again) == 1
    assert (tmp_path / MARKER).exists()


def test_a_sync_that_finds_no_descriptor_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[str] = []
    sync = OsPath.sync

    def failing(path: OsPath) -> None:
        if threading.current_thread().name.startswith("ottla-sync") and len(failures) < 2:
            failures.append(path.path)
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        sync(path)

    monkeypatch.setattr(OsPath, "sync", failing)
    monkeypatch.setattr("ottla.shell.core.SHORTAGE_S", 0.01)
    with EmbeddedBroker({"log.flush.interval.messages": "1"}, data=tmp_path) as broker:
        with connect(broker) as wire:
            create(wire)
            assert wire.produce("t", RECORD).error_code == 0
        assert broker.failure is None
    assert len(failures) == 2
    assert (tmp_path / MARKER).exists()


def test_flush_ms_is_kept_between_ticks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.shell.core.TICK_S", 3600.0)
    synced: list[str] = []
    sync = OsFile.sync

    def noting(file: OsFile) -> None:
        synced.append(file.path)
        sync(file)

    monkeypatch.setattr(OsFile, "sync", noting)
    config = {"log.flush.interval.ms": "50"}
    with EmbeddedBroker(config, data=tmp_path) as broker, connect(broker) as wire:
        create(wire)
        wire.produce("t", RECORD)
        wait_for(lambda: synced, what="the sync")


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_start_that_fails_leaves_the_traces_of_a_crash(tmp_path: Path, is_clean: bool) -> None:
    crash(tmp_path)
    if is_clean:
        (tmp_path / MARKER).write_text("")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        refusal(server(tmp_path, listeners=f"127.0.0.1:{taken.getsockname()[1]}"))
    again = server(tmp_path)
    run(again)
    assert again.broker.is_clean == is_clean
    assert leader_epoch(again) == (0 if is_clean else 1)


@pytest.mark.parametrize("is_clean", [True, False])
def test_so_does_one_that_fails_when_the_logs_are_open(
    tmp_path: Path, is_clean: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash(tmp_path)
    if is_clean:
        (tmp_path / MARKER).write_text("")

    def full(*_: object, **_more: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("ottla.shell.directories.write_meta", full)
    assert "No space left" in refusal(server(tmp_path))
    assert (tmp_path / MARKER).exists() == is_clean


def test_a_bug_is_no_clean_stop(tmp_path: Path) -> None:
    halted: list[str] = []
    one = Server({"listeners": "127.0.0.1:0", "log.dirs": str(tmp_path)}, on_halt=halted.append)

    async def live() -> None:
        await one.start()
        asyncio.get_running_loop().call_exception_handler({"message": "m", "exception": ValueError("v")})
        await one.stop()

    asyncio.run(live())
    assert halted == ["bug: ValueError('v')"]
    assert not (tmp_path / MARKER).exists()
    run(server(tmp_path))


def test_the_folder_of_a_broker_that_does_not_stop_is_left_to_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(embedded, "STOP_S", 0.05)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    is_free = threading.Event()
    close = Server._close_logs

    def slow(one: Server, *, clean: bool) -> None:
        is_free.wait(20)
        close(one, clean=clean)

    monkeypatch.setattr(Server, "_close_logs", slow)
    before = set(threading.enumerate())
    broker = EmbeddedBroker().start()
    folder = Path(broker.data)
    broker.stop()
    assert folder.exists()
    is_free.set()
    wait_for((folder / MARKER).exists, what="the end of the stop")
    wait_for(
        lambda: (
            not any(thread.name.startswith("ottla-broker") for thread in set(threading.enumerate()) - before)
        )
    )


def test_a_sweep_closes_whoever_hung_up_while_an_answer_is_parked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.shell.clients.SWEEP_MS", 100)
    broker = EmbeddedBroker({"max.connections": "2"}, data=tmp_path)
    with broker, connect(broker) as gone, connect(broker) as here:
        create(gone)
        here.send(fetch_request("t", max_wait_ms=2**31 - 1), 11)
        gone.send(fetch_request("t", max_wait_ms=2**31 - 1), 11)
        gone.close()

        def is_admitted() -> bool:
            with connect(broker) as wire:
                try:
                    return wire.produce("t", RECORD).error_code == 0
                except Closed:
                    return False

        wait_for(is_admitted, what="the place of the one that is gone")
        assert here.receive(type(fetch_request("t")), 11)[1].responses[0].partitions[0].records


def test_what_came_with_acks_0_is_written_though_its_client_hung_up_before_it_was_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.shell.clients.SWEEP_MS", 100)
    may_check, swept = threading.Event(), threading.Event()
    run, hung_up = LargeCheck.run, descriptors.hung_up

    def checked_late(check: LargeCheck, pause: Callable[[], None]) -> None:
        may_check.wait(30)
        run(check, pause)

    def seen(fds: Iterable[int]) -> set[int]:
        gone = hung_up(fds)
        if gone:
            swept.set()
        return gone

    monkeypatch.setattr(LargeCheck, "run", checked_late)
    monkeypatch.setattr(descriptors, "hung_up", seen)
    count = 2 * ITEMS_AT_ONCE
    behind = fetch_request("t", count)
    large = bytes(build_batch([NewRecord(b"k", b"v" * (n % 3), (), 1) for n in range(count)]))
    with EmbeddedBroker({"max.message.bytes": str(10 << 20)}, data=tmp_path) as broker:
        with connect(broker) as gone:
            create(gone)
            for records in (large, RECORD):
                gone.send(produce_request("t", records, acks=0), 9)
        assert swept.wait(30)
        may_check.set()
        with connect(broker) as here:
            is_there = lambda: bool(here.call(behind, 11).responses[0].partitions[0].records)  # noqa: E731
            wait_for(is_there, what="the batch behind it")
            assert [record.value for record in here.fetch("t", count)] == [b"x"]
