"""W11: from spawning the process to the first acknowledged record; then idle memory and CPU.

Every start finds an empty data folder. The client is in the harness: it tries to connect in a tight
loop, asks for the topic (which creates it) and produces until the broker says yes. The first start of
all is shown apart: it pays for compiled bytecode and a cold page cache.
"""

import contextlib
import os
import statistics
import time

from bench import wire
from bench.report import Column, Figures, Outcome, Row
from bench.servers import HOST, Peer, PeerError
from bench.targets import COLD_START, IDLE_MEMORY, Verdict
from bench.workload import Scale

COLUMNS = (
    Column("start_ms", "start ms"),
    Column("start_ms_min", "min"),
    Column("start_ms_max", "max"),
    Column("first_start_ms", "first start ms"),
    Column("start_cpu_s", "start CPU-s", 2),
    Column("rss_mb", "idle RSS MB", 1),
    Column("uss_mb", "idle USS MB", 1),
    Column("idle_cpu_percent", "idle CPU %", 2),
)
CASE = "empty folder"
TOPIC = "first"
START_S = 60.0
SETTLE_S = 2.0
RETRY_S = 0.0005


def until_acknowledged(peer: Peer, topic: str, deadline: float) -> None:
    """One connection after another until Produce succeeds."""
    batch, _ = wire.record_batch(os.urandom(100), 0)
    metadata, produce = wire.metadata_request(topic), wire.produce_request(topic, batch)
    at = wire.error_offset(topic)
    while time.perf_counter() < deadline:
        with contextlib.suppress(OSError), wire.connect(HOST, peer.port, 10.0) as sock:
            while time.perf_counter() < deadline:
                sock.sendall(metadata)
                wire.read_frame(sock)
                sock.sendall(produce)
                code = wire.produce_error(wire.read_frame(sock), at)
                if code == 0:
                    return
                if code not in wire.RETRIABLE:
                    raise PeerError(f"{peer.name} answered Produce with error {code}")
                time.sleep(RETRY_S)
        peer.check_alive()
        time.sleep(RETRY_S)
    raise PeerError(f"{peer.name} acknowledged nothing in time")


def _start(peer: Peer) -> float:
    peer.prepare()
    started = time.perf_counter()
    peer.start()
    until_acknowledged(peer, TOPIC, started + START_S)
    return (time.perf_counter() - started) * 1e3


def _idle(peer: Peer, idle_s: float) -> Figures:
    time.sleep(SETTLE_S)
    resident, unique = peer.memory_bytes()
    before, began = peer.cpu_seconds(), time.perf_counter()
    time.sleep(idle_s)
    busy = (peer.cpu_seconds() - before) / (time.perf_counter() - began)
    return {"rss_mb": resident / 1e6, "uss_mb": unique / 1e6, "idle_cpu_percent": 100 * busy}


def _measure(peer: Peer, scale: Scale) -> Figures:
    taken_ms: list[float] = []
    cpu_s: list[float] = []
    idle: Figures = {}
    for number in range(scale.starts + 1):
        scale.say(f"W11: {peer.name}, start {number} of {scale.starts}")
        try:
            taken_ms.append(_start(peer))
            cpu_s.append(peer.cpu_seconds())
            if number == scale.starts:
                idle = _idle(peer, scale.idle_s)
        finally:
            peer.stop()
    first_ms, *warm_ms = taken_ms
    return {
        "start_ms": statistics.median(warm_ms),
        "start_ms_min": min(warm_ms),
        "start_ms_max": max(warm_ms),
        "first_start_ms": first_ms,
        "start_cpu_s": statistics.median(cpu_s[1:]),
        **idle,
    }


def run(brokers: list[Peer], scale: Scale) -> Outcome:
    title = f"cold start to first acknowledged record (median of {scale.starts}), then idle"
    outcome = Outcome("W11", title, COLUMNS)
    for peer in brokers:
        try:
            outcome.rows.append(Row(CASE, peer.name, _measure(peer, scale)))
        except PeerError as error:
            outcome.rows.append(Row(CASE, peer.name, {}, f"not run: {error}"))
    for target, key in ((COLD_START, "start_ms"), (IDLE_MEMORY, "rss_mb")):
        outcome.verdicts.append(Verdict(target, outcome.figure(CASE, "Ottla", key)))
    return outcome
