"""Logs are opened in a thread: the loop turns meanwhile, and a start that is cancelled leaves nothing."""

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.http import get
from tests.support.ports import free_ports
from tests.support.processes import OttlaProcess
from tests.support.waiting import until, wait_for

from ottla import Broker
from ottla.log.store_loader import LoadCancelledError, StoreLoader
from ottla.shell.lock import DirectoryLock, StartError
from ottla.shell.server import Server
from ottla.shell.worker import run_in_thread

LoadFolder = Callable[..., None]
PARTITIONS = 3


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    """Logs to recover."""
    broker = Broker(data=tmp_path)
    broker.start()
    broker.create_topic("t", partitions=PARTITIONS)
    broker.kill()
    return tmp_path


class Gate:
    """Holds up the opening of logs, each at its beginning, until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached = threading.Event()
        self.open = threading.Event()
        load_folder: LoadFolder = StoreLoader._load_folder

        def wait_and_load(loader: StoreLoader, *arguments: object) -> None:
            self.reached.set()
            assert self.open.wait(60)
            load_folder(loader, *arguments)

        monkeypatch.setattr(StoreLoader, "_load_folder", wait_and_load)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    return Gate(monkeypatch)


def server(data: Path) -> Server:
    properties = {"listeners": "127.0.0.1:0", "log.dirs": str(data), "ottla.http.listener": "0"}
    return Server(properties, on_halt=lambda _reason: None)


def threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("ottla-open")}


def test_a_broker_that_recovers_its_logs_is_alive_not_ready_and_says_how_far_it_is(
    crashed: Path, gate: Gate
) -> None:
    async def story() -> None:
        broker = server(crashed)
        starting = asyncio.ensure_future(broker.start())
        await until(gate.reached.is_set, "logs are recovered")
        address = str(broker.http_address)

        async def page(path: str) -> tuple[int, bytes]:
            answer = await asyncio.to_thread(get, address, path)
            return answer.status, answer.body

        assert (await page("/health/live"))[0] == 200
        status, body = await page("/health/ready")
        assert status == 503
        assert b'"name": "recovering-logs", "detail": "0 of 3 logs are open."' in body
        text = (await page("/metrics"))[1].decode()
        assert f'kafka_log_logmanager_remaininglogstorecover{{dir="{crashed}"}} {PARTITIONS}\n' in text
        assert "ottla_ready 0\n" in text
        gate.open.set()
        await starting
        assert threads() == set()
        assert (await page("/health/ready"))[0] == 200
        text = (await page("/metrics"))[1].decode()
        assert f'kafka_log_logmanager_remaininglogstorecover{{dir="{crashed}"}} 0\n' in text
        assert f"kafka_server_replicamanager_partitioncount {PARTITIONS}\n" in text
        await broker.stop()

    asyncio.run(story())


def test_a_start_that_is_cancelled_ends_its_recovery_at_the_next_log_and_leaves_nothing_behind(
    crashed: Path, gate: Gate
) -> None:
    async def story() -> Server:
        broker = server(crashed)
        starting = asyncio.ensure_future(broker.start())
        await until(gate.reached.is_set, "logs are recovered")
        starting.cancel()
        await until(lambda: broker.broker.store.progress.is_cancelled, "it is told to end")
        assert not starting.done()  # the thread still has the broker
        gate.open.set()
        await asyncio.wait([starting])
        assert starting.cancelled()
        return broker

    broker = asyncio.run(story())
    assert broker.broker.store.progress.opened == 1
    assert threads() == set()
    assert not (crashed / ".kafka_cleanshutdown").exists()
    lock = DirectoryLock(str(crashed))
    lock.take()
    lock.release()
    with Broker(data=crashed) as again:
        assert again.metrics()["kafka_server_replicamanager_partitioncount"] == PARTITIONS


def test_a_start_from_a_clean_stop_that_is_cancelled_stays_clean(tmp_path: Path, gate: Gate) -> None:
    gate.open.set()
    with Broker(data=tmp_path) as broker:
        broker.create_topic("t", partitions=PARTITIONS)
    gate.open.clear()
    gate.reached.clear()

    async def story() -> None:
        starting = asyncio.ensure_future(server(tmp_path).start())
        await until(gate.reached.is_set, "logs are opened")
        starting.cancel()
        gate.open.set()
        await asyncio.wait([starting])
        assert starting.cancelled()

    asyncio.run(story())
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_whatever_goes_wrong_in_the_thread_is_told_as_before(
    crashed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(StoreLoader, "_load_folder", fail)
    with pytest.raises(StartError, match=r"cannot open the logs: .*Input/output error"):
        asyncio.run(server(crashed).start())
    assert threads() == set()


def test_who_is_cancelled_more_than_once_still_waits_for_the_thread() -> None:
    async def story() -> None:
        has_begun, may_end, cancels = threading.Event(), threading.Event(), [0]

        def job() -> None:
            has_begun.set()
            assert may_end.wait(60)
            raise LoadCancelledError

        def on_cancelled() -> None:
            cancels[0] += 1

        running = asyncio.ensure_future(run_in_thread(job, "ottla-open", on_cancelled))
        await until(has_begun.is_set, "the job runs")
        for count in (1, 2):
            running.cancel()
            await until(lambda count=count: cancels[0] == count, "it is cancelled")
        assert not running.done()
        may_end.set()
        await asyncio.wait([running])
        assert running.cancelled()

    asyncio.run(story())


SLOW_START = """
import sys, threading
from ottla.log.store_loader import StoreLoader

load_folder = StoreLoader._load_folder


def load_slowly(*arguments):
    print("recovers", file=sys.stderr, flush=True)
    threading.Event().wait(1)
    load_folder(*arguments)


StoreLoader._load_folder = load_slowly
from ottla.cli import main

main()
"""


def test_sigterm_ends_a_process_that_recovers(crashed: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW_START, "start", "--listen", "127.0.0.1:0", "--data", str(crashed)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr
    try:
        assert process.stderr.readline() == "recovers\n"
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, out, err) == (0, "", "")


def test_a_broker_that_waits_for_zookeeper_is_alive_and_not_ready(tmp_path: Path) -> None:
    port, http_port, nobody = free_ports(3)
    broker = OttlaProcess(
        tmp_path, port, {"zookeeper.connect": f"127.0.0.1:{nobody}", "ottla.http.listener": str(http_port)}
    )
    broker.settings = {**broker.settings, "log.dirs": str(tmp_path / "data")}
    broker.launch()
    try:
        wait_for(lambda: "no ZooKeeper answers" in broker.log or not broker.is_running, 60, "it waits")
        ready = get(f"127.0.0.1:{http_port}", "/health/ready")
        assert ready.status == 503
        assert [reason["name"] for reason in ready.json["reasons"]] == ["not-registered"]
        assert get(f"127.0.0.1:{http_port}", "/health/live").status == 200
        assert broker.stop() == 0
    finally:
        broker.kill()
