"""WN: what one more costs: a partition, a connection, a group, a GB that is kept.

One broker at several sizes of one thing, nothing else on it, and a straight line through the figures: memory
(unique, without what other processes share), processor time while nobody asks for anything, processor time of
a start after a clean stop, and how long that start took. Each size is measured more than once, in turns,
because the machine is not the same from one moment to the next; the line goes through all of them.
"""

import contextlib
import itertools
import socket
import statistics
import time
from collections.abc import Callable, Sequence

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench import wire, wire_groups
from bench.cpu_clock import cpu_seconds
from bench.load import drive
from bench.report import Column, Figures, Outcome, Row, medians
from bench.servers import HOST, Ottla, Peer, PeerError
from bench.w11_start import until_acknowledged
from bench.workload import LOAD_TIMEOUT_S, Scale

COLUMNS = (
    Column("uss_mb", "USS MB", 1),
    Column("idle_ms_per_s", "idle CPU ms/s", 2),
    Column("start_cpu_ms", "start CPU ms"),
    Column("start_ms", "start ms"),
    Column("uss_kb_each", "kB each", 2),
    Column("idle_us_each", "idle us/s each", 2),
    Column("start_us_each", "start CPU us each", 1),
)
TOPIC, KEPT, TOPIC_PARTITIONS = "first", "kept", 100
RECORD_BYTES, BATCH_BYTES = 1024, 1 << 20
START_S, SETTLE_S, ANSWER_S = 120.0, 3.0, 30.0
ROUNDS = 2
PARTS = 4  # of the largest size

Fill = Callable[[Peer, int], Sequence[socket.socket]]


def _partitions(peer: Peer, count: int) -> Sequence[socket.socket]:
    admin = AdminClient({"bootstrap.servers": peer.bootstrap, "log_level": 0})
    names = [f"many-{number}" for number in range(count // TOPIC_PARTITIONS)]
    if not names:
        return ()
    topics = [NewTopic(name, num_partitions=TOPIC_PARTITIONS, replication_factor=1) for name in names]
    try:
        for made in admin.create_topics(topics, operation_timeout=60, request_timeout=90).values():
            made.result(100)
    except (KafkaException, TimeoutError) as error:
        raise PeerError(f"{peer.name} did not create topics: {error}") from error
    return ()


def _connections(peer: Peer, count: int) -> Sequence[socket.socket]:
    """Each has asked once, and stays."""
    asked = wire.metadata_request(TOPIC)
    sockets = []
    for _ in range(count):
        sockets.append(wire.connect(HOST, peer.port, ANSWER_S))
        sockets[-1].sendall(asked)
        wire.read_frame(sockets[-1])
    return sockets


def _groups(peer: Peer, count: int) -> Sequence[socket.socket]:
    """Without members, each with one committed offset."""
    with wire.connect(HOST, peer.port, ANSWER_S) as sock:
        deadline = time.monotonic() + START_S
        for number in range(count):
            request = wire_groups.commit(f"group-{number}", "", -1, TOPIC, range(1), 1)
            sock.sendall(wire_groups.find_coordinator(f"group-{number}"))
            wire.read_frame(sock)
            sock.sendall(request)
            while wire.produce_error(wire.read_frame(sock), wire_groups.commit_error_offset(TOPIC)):
                if time.monotonic() > deadline:
                    raise PeerError(f"{peer.name} commits no offset")
                time.sleep(0.01)
                sock.sendall(request)
    return ()


def _megabytes(peer: Peer, count: int) -> Sequence[socket.socket]:
    if count:
        peer.create_topic(KEPT)
        spec = {
            "bootstrap": peer.bootstrap,
            "topic": KEPT,
            "record_bytes": RECORD_BYTES,
            "batch_bytes": BATCH_BYTES,
            "records": count * 1_000_000 // RECORD_BYTES,
        }
        drive("bulk", spec, peer, LOAD_TIMEOUT_S)
    return ()


def _pids(peer: Peer) -> list[int]:
    return [process.pid for process in peer._processes()]


def _measure(peer: Peer, fill: Fill, count: int, idle_s: float) -> Figures:
    """Fill it, stop it, start it again, and leave it alone. Connections are made after the start."""
    is_kept = fill is not _connections
    with contextlib.ExitStack() as stack, peer:
        until_acknowledged(peer, TOPIC, time.perf_counter() + START_S)
        if is_kept:
            fill(peer, count)
        peer.end(START_S)
        began = time.perf_counter()
        peer.start()
        until_acknowledged(peer, TOPIC, began + START_S)
        start_ms, start_cpu_s = (time.perf_counter() - began) * 1e3, cpu_seconds(_pids(peer))
        for sock in () if is_kept else fill(peer, count):
            stack.enter_context(sock)
        time.sleep(SETTLE_S)
        before, began = cpu_seconds(_pids(peer)), time.perf_counter()
        time.sleep(idle_s)
        busy = (cpu_seconds(_pids(peer)) - before) / (time.perf_counter() - began)
        unique = peer.memory_bytes()[1]
    return {
        "size": float(count),
        "uss_mb": unique / 1e6,
        "idle_ms_per_s": busy * 1e3,
        "start_cpu_ms": start_cpu_s * 1e3,
        "start_ms": start_ms,
    }


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Of the straight line through these, by least squares."""
    return statistics.linear_regression([x for x, _ in points], [y for _, y in points]).slope


def _each(measured: Sequence[Figures]) -> Figures:
    def of(key: str, unit: float) -> float:
        return unit * slope([(figures["size"] or 0.0, figures[key] or 0.0) for figures in measured])

    return {
        "uss_kb_each": of("uss_mb", 1e3),
        "idle_us_each": of("idle_ms_per_s", 1e3),
        "start_us_each": of("start_cpu_ms", 1e3),
    }


def _turns(peer: Peer, name: str, fill: Fill, counts: Sequence[int], scale: Scale) -> list[Figures]:
    measured = []
    for turn, count in itertools.product(range(ROUNDS), counts):
        figures = _measure(peer, fill, count, scale.idle_s)
        shown = ", ".join(f"{column.head} {column.show(figures.get(column.key))}" for column in COLUMNS[:4])
        scale.say(f"WN: {count} {name}, turn {turn + 1} of {ROUNDS}: {shown}")
        measured.append(figures)
    return measured


def run(brokers: list[Peer], scale: Scale) -> Outcome:
    outcome = Outcome("WN", f"what one more costs (medians of {ROUNDS}, and a line through all)", COLUMNS)
    things: dict[str, tuple[Fill, int]] = {
        "partitions": (_partitions, 2 * scale.partitions // 5),
        "connections": (_connections, scale.partitions // 5),
        "groups": (_groups, 2 * scale.partitions // 5),
        "MB kept": (_megabytes, scale.partitions // 5),
    }
    ottla = next((broker for broker in brokers if isinstance(broker, Ottla)), None)
    if ottla is None:
        return outcome
    empty = _turns(ottla, "of anything", _partitions, [0], scale)
    outcome.rows.append(Row("nothing", ottla.name, medians(empty), "", tuple(empty)))
    for name, (fill, largest) in things.items():
        counts = [part * largest // PARTS for part in (1, 2, PARTS)]
        try:
            measured = _turns(ottla, name, fill, counts, scale)
        except PeerError as error:
            outcome.rows.append(Row(name, ottla.name, {}, f"not run: {error}"))
            continue
        for count in counts:
            rounds = tuple(figures for figures in measured if figures["size"] == count)
            outcome.rows.append(Row(f"{count:,} {name}", ottla.name, medians(rounds), "", rounds))
        outcome.rows.append(Row(f"one of {name}", ottla.name, _each([*empty, *measured])))
    return outcome
