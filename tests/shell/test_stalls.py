"""What keeps everybody waiting is counted by its cause and said once, with what ran."""

import gc
import logging
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kafka_clients.wire_client import Wire, frame_of, framed
from tests.support.frames import encode_request
from tests.support.metrics import metrics_at
from tests.support.ports import free_ports
from tests.support.processes import OttlaProcess, running
from tests.support.waiting import wait_for

import ottla
from ottla.api.dispatch import Exchange
from ottla.broker.quotas import Quotas
from ottla.shell.embedded import EmbeddedBroker
from ottla.shell.stalls import CAUSES, GARBAGE, KEEPER, UNKNOWN, NoWatcher, Stalls
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.metadata import MetadataRequest

LIMIT_MS = 100
STALL_S = 0.3
CLIENT = "slow"
TICK_S = 0.2


class Clock:
    def __init__(self) -> None:
        self.now_us = 1_000_000

    def elapsed_us(self) -> int:
        return self.now_us

    def pass_ms(self, duration_ms: int) -> None:
        self.now_us += duration_ms * 1000


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def stalls(clock: Clock) -> Iterator[Stalls]:
    """A tick has just begun."""
    meter = Stalls(clock.elapsed_us)
    meter.watch(NoWatcher())
    meter.begin()
    meter.on_tick(LIMIT_MS, TICK_S)
    yield meter
    meter.end()


def total_ms(stalls: Stalls) -> dict[str, int]:
    return {cause: spent_us // 1000 for cause, spent_us in stalls.total_us.items() if spent_us}


def test_a_stall_is_counted_by_its_cause_and_said(
    stalls: Stalls, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    clock.pass_ms(150)
    stalls.note(KEEPER, 150_000)
    clock.pass_ms(200)
    stalls.note(KEEPER, 200_000)
    assert +stalls.counts == {KEEPER: 2}
    assert total_ms(stalls) == {KEEPER: 350}
    assert caplog.messages == [
        "everybody had to wait 150 ms for keeper changes",
        "everybody had to wait 200 ms for keeper changes",
    ]
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2
    assert caplog.records[0].__dict__["fields"]["reason"] == KEEPER


def test_what_is_noted_inside_of_something_does_not_count_again_there(stalls: Stalls, clock: Clock) -> None:
    clock.pass_ms(120)
    stalls.note(GARBAGE, 120_000)
    clock.pass_ms(30)
    stalls.note("Metadata", 150_000)  # 30 ms of its own
    clock.pass_ms(140)
    stalls.note(KEEPER, 290_000)  # around both: 170 ms of its own
    assert total_ms(stalls) == {GARBAGE: 120, KEEPER: 170}


def test_a_late_tick_is_an_unknown_stall_unless_something_else_explains_it(
    stalls: Stalls, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    clock.pass_ms(100)
    clock.pass_ms(400)
    stalls.note("Fetch", 400_000)
    clock.pass_ms(20)
    stalls.on_tick(LIMIT_MS, TICK_S)
    assert total_ms(stalls) == {"Fetch": 400}
    clock.pass_ms(450)
    stalls.on_tick(LIMIT_MS, TICK_S)
    assert total_ms(stalls) == {"Fetch": 400, UNKNOWN: 250}
    assert "not measured" in caplog.messages[-1]
    clock.pass_ms(290)
    stalls.on_tick(LIMIT_MS, TICK_S)
    assert total_ms(stalls) == {"Fetch": 400, UNKNOWN: 250}
    assert sum(stalls.lag.counts) == 3
    assert stalls.lag.total_us == (320 + 250 + 90) * 1000


def test_a_stall_for_a_request_names_its_api_its_client_and_its_size(
    stalls: Stalls, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    frame = frame_of(MetadataRequest(topics=[]), 12, correlation_id=7, client_id="billing\n")[4:]
    clock.pass_ms(500)
    stalls.note_request(memoryview(frame), "10.0.0.1", 500_000)
    assert +stalls.counts == {"Metadata": 1}
    said = f"everybody had to wait 500 ms for Metadata of {len(frame)} bytes from 'billing\\n' at 10.0.0.1"
    assert caplog.messages == [said]
    told = caplog.records[0].__dict__["fields"]
    assert (told["client"], told["correlation"], told["took_ms"]) == ("billing\n", 7, 500)


def test_bytes_that_are_no_request_are_of_no_api(stalls: Stalls, clock: Clock) -> None:
    for frame in (b"", b"\0", b"\xff" * 20):
        clock.pass_ms(200)
        stalls.note_request(memoryview(frame), "10.0.0.1", 200_000)
    assert +stalls.counts == {UNKNOWN: 3}


def test_of_parts_each_is_measured_by_itself(stalls: Stalls, clock: Clock) -> None:
    for part, duration_ms in (("replication", 90), ("quotas", 130), ("syncs", 10)):
        stalls.enter(part)
        clock.pass_ms(duration_ms)
    stalls.enter("")
    clock.pass_ms(5_000)
    stalls.enter("replication")
    assert total_ms(stalls) == {"quotas": 130}


def test_a_full_garbage_collection_that_takes_long_is_a_stall_of_its_own(
    stalls: Stalls, clock: Clock
) -> None:
    def slow(phase: str, _collection: dict[str, int]) -> None:
        if phase == "start":
            clock.pass_ms(300)

    gc.callbacks.append(slow)
    try:
        gc.collect(0)
        assert not +stalls.counts
        gc.collect()
    finally:
        gc.callbacks.remove(slow)
    assert total_ms(stalls) == {GARBAGE: 300}


def test_the_threshold_counts_from_the_next_tick(stalls: Stalls, clock: Clock) -> None:
    stalls.on_tick(1_000, TICK_S)
    clock.pass_ms(500)
    stalls.note(KEEPER, 500_000)
    assert not +stalls.counts


def test_every_cause_that_the_source_names_has_its_series_from_the_first_on() -> None:
    source = Path(ottla.__file__).parent
    texts = [path.read_text() for room in ("broker", "shell") for path in (source / room).glob("*.py")]
    named = {cause for text in texts for cause in re.findall(r"\benter\(\"(.+?)\"\)", text)}
    for text in texts:
        named |= set(re.findall(r"_?input\([^\"]*?,\s*\"(.+?)\"", text))
    assert {"quotas", "sync results", "peer answers", "tick"} <= named
    assert named <= set(CAUSES)


# -- in a broker --


def delay(monkeypatch: pytest.MonkeyPatch, part: type, method: str, is_meant: Callable[[Any], bool]) -> None:
    """Let it happen, once, after a while in which nothing else runs. There may be other brokers in this
    process."""
    call, delays = getattr(part, method), iter([STALL_S])

    def late(itself: object, *arguments: object) -> object:
        if is_meant(itself):
            time.sleep(next(delays, 0))
        return call(itself, *arguments)

    monkeypatch.setattr(part, method, late)


def test_a_broker_counts_a_slow_request_and_a_slow_part_of_its_tick(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ottla.shell.stalls")  # as an embedded one says it
    with EmbeddedBroker() as broker, Wire(int(broker.bootstrap_servers.rpartition(":")[2])) as wire:
        wire.call(ApiVersionsRequest(), 0)
        wait_for(lambda: broker.metrics()["ottla_loop_lag_seconds_count"] > 0)
        assert broker._server is not None
        quotas, stalls = broker._server.broker.quotas, broker._server.core.stalls
        assert stalls._on_collection in gc.callbacks
        delay(monkeypatch, Exchange, "decoded", lambda exchange: exchange.header.client_id == CLIENT)
        wire.send_bytes(frame_of(MetadataRequest(topics=[]), 12, client_id=CLIENT))
        wire.receive_frame()
        metrics = broker.metrics()
        assert metrics['ottla_stalls_total{cause="Metadata"}'] == 1
        assert metrics['ottla_stall_seconds_total{cause="Metadata"}'] >= STALL_S
        assert metrics['ottla_stalls_total{cause="quotas"}'] == 0
        delay(monkeypatch, Quotas, "on_tick", lambda itself: itself is quotas)
        wait_for(lambda: broker.metrics()['ottla_stalls_total{cause="quotas"}'] == 1)
    said = [line for line in caplog.messages if line.startswith("everybody had to wait")]
    assert any("ms for Metadata of" in line and "from 'slow' at 127.0.0.1" in line for line in said)
    assert any(line.endswith("ms for quotas") for line in said)
    assert stalls._on_collection not in gc.callbacks


def test_a_slow_request_that_costs_its_connection_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedBroker() as broker, Wire(int(broker.bootstrap_servers.rpartition(":")[2])) as wire:
        wait_for(lambda: broker.metrics()["ottla_loop_lag_seconds_count"] > 0)
        delay(monkeypatch, Exchange, "decoded", lambda exchange: exchange.header.client_id == CLIENT)
        wire.send_bytes(framed(encode_request(MetadataRequest(topics=[]), 12, 1, CLIENT)[:-2]))
        assert wire.is_closed_by_peer()
        assert broker.metrics()['ottla_stalls_total{cause="Metadata"}'] == 1


class Idle(OttlaProcess):
    def context_switches(self) -> dict[int, int]:
        """How often each thread has waited for something."""
        counts = {}
        for path in Path(f"/proc/{self.process.pid}/task").iterdir():
            status = (path / "status").read_text()
            counts[int(path.name)] = int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])
        return counts


def test_a_process_that_was_stopped_has_an_unknown_stall_and_says_where_it_was(tmp_path: Path) -> None:
    port, http_port = free_ports(2)
    http = f"127.0.0.1:{http_port}"
    with running(OttlaProcess(tmp_path, port, {"ottla.http.listener": http})) as broker:

        def stop_for_a_while() -> bool:
            """Where it was is seen if the thread that looks is woken before the loop is over it."""
            broker.pause()
            time.sleep(1)  # the stall itself
            broker.resume()
            wait_for(lambda: "everybody had to wait" in broker.log)
            return "which was in " in broker.log

        wait_for(stop_for_a_while)
        metrics = metrics_at(http)
    assert metrics[f'ottla_stalls_total{{cause="{UNKNOWN}"}}'] >= 1
    assert metrics[f'ottla_stall_seconds_total{{cause="{UNKNOWN}"}}'] >= 0.5
    lines = [line for line in broker.log.splitlines() if "everybody had to wait" in line]
    assert any("not measured" in line and "which was in " in line for line in lines), lines


def test_nobody_wakes_up_to_watch_an_idle_broker(tmp_path: Path) -> None:
    with running(Idle(tmp_path, free_ports(1)[0], {"ottla.stall.threshold.ms": "60000"})) as broker:
        pid = broker.process.pid
        before = broker.context_switches()
        assert len(before) > 1
        wait_for(lambda: broker.context_switches()[pid] >= before[pid] + 10)
        after = broker.context_switches()
    assert {thread: after[thread] for thread in before if thread != pid} == {
        thread: count for thread, count in before.items() if thread != pid
    }


WATCHED = """
import threading, time
from ottla.shell.stall_watcher import StallWatcher

def stuck():
    end_s = time.monotonic() + 30
    while not watcher._where and time.monotonic() < end_s:
        sum(range(1000))

watcher = StallWatcher()
watcher.expect(60)
watcher.expect(0.05)
stuck()
print(watcher.take())
assert watcher.take() == ""
watcher.close()
assert threading.active_count() == 1
"""


def test_a_watcher_says_where_the_thread_was_that_is_late() -> None:
    """In a process of its own: there is one alarm in a process, and pytest has it."""
    outcome = subprocess.run([sys.executable, "-c", WATCHED], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"stuck \(<string>:\d+\) < <module> \(<string>:\d+\)\n", outcome.stdout), outcome
