"""W7: idle connections. None, 1,000 and 10,000 of them beside 100 active producers, each with one message of
100 B on its way at a time. Every idle one has asked for metadata once, as a client does that has nothing to
do.

A JVM's memory says little: its heap grows by what was not collected yet, up to -Xmx."""

import contextlib
import resource
import time

from bench import wire
from bench.common_loads import send_singly
from bench.report import Column, Figures, Outcome, Row
from bench.servers import HOST, Peer, PeerError
from bench.workload import Scale, up

COLUMNS = (
    Column("connect_s", "connect s", 2),
    Column("kb_per_connection", "kB / idle", 1),
    Column("idle_cpu_percent", "idle CPU %", 2),
    Column("messages_per_s", "msg/s"),
    Column("p50_us", "p50 us"),
    Column("p99_us", "p99 us"),
    Column("cpu_us_per_message", "CPU us / msg", 1),
)
TOPIC = "active"
RECORD_BYTES, ACTIVE = 100, 100
IDLE = (0, 1_000, 10_000)
SPARE_DESCRIPTORS = 500
TIMEOUT_S = 60.0


def _allow_descriptors() -> int:
    """How many connections this process may hold."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most - SPARE_DESCRIPTORS


def _active(peer: Peer, seconds: float) -> Figures:
    return send_singly("single-raw", peer, TOPIC, RECORD_BYTES, ACTIVE, seconds)


def _measure(peer: Peer, idle: int, scale: Scale) -> Figures:
    before, _ = peer.memory_bytes()
    with contextlib.ExitStack() as stack:
        began = time.perf_counter()
        request = wire.metadata_request(TOPIC)
        for _ in range(idle):
            sock = stack.enter_context(wire.connect(HOST, peer.port, TIMEOUT_S))
            sock.sendall(request)
            wire.read_frame(sock)
        connect_s = time.perf_counter() - began
        grown = peer.memory_bytes()[0] - before
        cpu, began = peer.cpu_seconds(), time.perf_counter()
        time.sleep(scale.idle_s)
        busy = (peer.cpu_seconds() - cpu) / (time.perf_counter() - began)
        return {
            "connect_s": connect_s if idle else None,
            "kb_per_connection": grown / idle / 1e3 if idle else None,
            "idle_cpu_percent": 100 * busy,
            **_active(peer, 3 * scale.single_s),
        }


def run(brokers: list[Peer], scale: Scale) -> Outcome:
    outcome = Outcome("W7", f"idle connections beside {ACTIVE} active producers", COLUMNS)
    allowed = _allow_descriptors()
    with up(brokers, outcome, scale) as running:
        for peer in running:
            peer.create_topic(TOPIC)
            with contextlib.suppress(PeerError):
                _active(peer, scale.warm_s)
        for idle in IDLE:
            case = f"{idle:,} idle"
            for peer in running:
                if idle > allowed:
                    outcome.rows.append(Row(case, peer.name, {}, f"{allowed} descriptors are allowed here"))
                    continue
                scale.say(f"W7: {case}, {peer.name}")
                try:
                    outcome.rows.append(Row(case, peer.name, _measure(peer, idle, scale)))
                except (OSError, PeerError) as error:
                    outcome.rows.append(Row(case, peer.name, {}, f"failed: {error}"))
    return outcome
