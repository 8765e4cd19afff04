"""W8: 10,000 partitions, in topics of 100 each, on one broker and on three with three replicas.

create     one CreateTopics after the other; `ready` is when every broker knows a leader of every partition,
           and all replicas in sync. Meanwhile another connection asks for the metadata of one small topic,
           again and again: `stall` is the longest that it waited, so the longest that any client did.
metadata   Metadata v12 for all topics and for one, one request at a time on one connection. `changed`: right
           after a topic was created, because an answer may be kept for the requests that follow.
memory     growth of a broker's RSS per replica on it. A JVM's says little: its heap grows up to -Xmx.
restart    after a clean stop, and after kill -9: until a record is acknowledged in the topic created last, on
           the broker alone; in the cluster one broker goes and comes back, until it is in every ISR again.
"""

import contextlib
import socket
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench import wire, wire_cluster
from bench.clusters import Cluster, clusters_of
from bench.report import Column, Figures, Outcome, Row
from bench.servers import HOST, Peer, PeerError
from bench.workload import Scale

COLUMNS = (
    Column("create_s", "create s", 2),
    Column("ready_s", "ready s", 2),
    Column("stall_ms", "stall ms"),
    Column("create_cpu_s", "CPU-s", 1),
    Column("metadata_kb", "metadata kB"),
    Column("metadata_changed_ms", "changed ms", 1),
    Column("metadata_ms", "p50 ms", 2),
    Column("metadata_one_ms", "one topic ms", 2),
    Column("rss_mb", "RSS MB"),
    Column("kb_per_replica", "kB / replica", 1),
    Column("idle_cpu_percent", "idle CPU %", 1),
    Column("stop_s", "stop s", 2),
    Column("restart_s", "restart s", 2),
    Column("kill_restart_s", "after -9 s", 2),
)
TOPIC_PARTITIONS = 100
SMALL = "small"
PATIENCE_S = 300.0
STOP_S = 120.0
SETTLE_S = 3.0
ASKED = 20
CHANGES = 3
PAUSE_S = 0.005
PAUSE_AFTER_CHANGE_S = 0.5


def topic_names(partitions: int) -> list[str]:
    return [f"many-{number}" for number in range(max(1, partitions // TOPIC_PARTITIONS))]


def _brokers(peer: Peer) -> list[Peer]:
    return list(peer.nodes) if isinstance(peer, Cluster) else [peer]


class _Asker:
    """Asks one broker for a small topic's metadata until the end of the block, and keeps the longest wait."""

    def __init__(self, port: int) -> None:
        self.longest_s = 0.0
        self._port = port
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        request = wire_cluster.metadata_v12(SMALL)
        with contextlib.suppress(OSError), wire.connect(HOST, self._port, PATIENCE_S) as sock:
            while not self._is_over.is_set():
                began = time.perf_counter()
                wire_cluster.ask(sock, request)
                self.longest_s = max(self.longest_s, time.perf_counter() - began)
                time.sleep(PAUSE_S)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._is_over.set()
        self._thread.join()


def create(peer: Peer, names: Sequence[str]) -> None:
    admin = AdminClient({"bootstrap.servers": peer.bootstrap, "log_level": 0})
    replicas = len(_brokers(peer))
    for name in names:
        wanted = NewTopic(name, num_partitions=TOPIC_PARTITIONS, replication_factor=replicas)
        try:
            admin.create_topics([wanted], operation_timeout=60, request_timeout=90)[name].result(100)
        except TimeoutError as error:
            raise PeerError(f"{peer.name} did not answer CreateTopics") from error
        except KafkaException as error:
            raise PeerError(f"{peer.name} did not create {name}: {error.args[0].str()}") from error


def _is_whole(peer: Peer, partitions: int) -> bool:
    """All partitions are known, have a leader, and all replicas in sync; every broker says the same."""
    said: Any = AdminClient({"bootstrap.servers": peer.bootstrap, "log_level": 0}).list_topics(timeout=30)
    topics = [topic for name, topic in said.topics.items() if name.startswith("many-")]
    known = [one for topic in topics for one in topic.partitions.values()]
    if len(known) != partitions:
        return False
    if any(one.leader < 0 or len(one.isrs) < len(one.replicas) for one in known):
        return False
    return len({_size(one.port) for one in _brokers(peer)}) == 1


def _size(port: int) -> int:
    """Of the metadata of all topics."""
    with wire.connect(HOST, port, PATIENCE_S) as sock:
        return wire_cluster.ask(sock, wire_cluster.metadata_v12(None))


def _wait(peer: Peer, is_reached: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        peer.check_alive()
        with contextlib.suppress(KafkaException, OSError):
            if is_reached():
                return
        time.sleep(0.02)
    raise PeerError(f"{peer.name}: {what} took more than {PATIENCE_S:.0f} s")


def _created(peer: Peer, names: Sequence[str]) -> Figures:
    cpu, began = peer.cpu_seconds(), time.perf_counter()
    with _Asker(_brokers(peer)[0].port) as asker:
        create(peer, names)
        create_s = time.perf_counter() - began
        _wait(peer, lambda: _is_whole(peer, len(names) * TOPIC_PARTITIONS), "creation")
    return {
        "create_s": create_s,
        "ready_s": time.perf_counter() - began,
        "stall_ms": asker.longest_s * 1e3,
        "create_cpu_s": peer.cpu_seconds() - cpu,
    }


def _ask_s(sock: socket.socket, request: bytes) -> float:
    began = time.perf_counter()
    wire_cluster.ask(sock, request)
    return time.perf_counter() - began


def _asked(peer: Peer, topic: str) -> Figures:
    everything, one = wire_cluster.metadata_v12(None), wire_cluster.metadata_v12(topic)
    port = _brokers(peer)[0].port
    with wire.connect(HOST, port, PATIENCE_S) as sock:
        changed_s: list[float] = []
        for number in range(CHANGES):
            peer.create_topic(f"change-{number}")
            time.sleep(PAUSE_AFTER_CHANGE_S)
            changed_s.append(_ask_s(sock, everything))
        return {
            "metadata_kb": _size(port) / 1e3,
            "metadata_changed_ms": statistics.median(changed_s) * 1e3,
            "metadata_ms": statistics.median(_ask_s(sock, everything) for _ in range(ASKED)) * 1e3,
            "metadata_one_ms": statistics.median(_ask_s(sock, one) for _ in range(ASKED)) * 1e3,
        }


def _resident(peer: Peer) -> float:
    """Of one broker, the mean of all."""
    return statistics.mean(one.memory_bytes()[0] for one in _brokers(peer))


def _idle(peer: Peer, scale: Scale, before: float, replicas: int) -> Figures:
    time.sleep(SETTLE_S)
    resident = _resident(peer)
    cpu, began = peer.cpu_seconds(), time.perf_counter()
    time.sleep(scale.idle_s)
    busy = (peer.cpu_seconds() - cpu) / (time.perf_counter() - began)
    return {
        "rss_mb": resident / 1e6,
        "kb_per_replica": (resident - before) / replicas / 1e3,
        "idle_cpu_percent": 100 * busy,
    }


def _is_acknowledged(port: int, topic: str) -> bool:
    batch, _ = wire.record_batch(bytes(100), 0)
    with wire.connect(HOST, port, 30.0) as sock:
        sock.sendall(wire.produce_request(topic, batch))
        return wire.produce_error(wire.read_frame(sock), wire.error_offset(topic)) == 0


def _come_back(peer: Peer, one: Peer, names: Sequence[str]) -> float:
    began = time.perf_counter()
    one.start()
    if isinstance(peer, Cluster):
        # `_is_whole` asks all brokers, this one too: not before it serves, nor while others still take it for
        # the one that was killed.
        _wait(peer, lambda: _is_whole(peer, len(names) * TOPIC_PARTITIONS), "restart")
    else:
        _wait(peer, lambda: _is_acknowledged(one.port, names[-1]), "restart")
    return time.perf_counter() - began


def _restarted(peer: Peer, names: Sequence[str]) -> Figures:
    one = _brokers(peer)[-1]
    began = time.perf_counter()
    one.end(STOP_S)
    stop_s = time.perf_counter() - began
    restart_s = _come_back(peer, one, names)
    one.kill()
    return {"stop_s": stop_s, "restart_s": restart_s, "kill_restart_s": _come_back(peer, one, names)}


def _measure(peer: Peer, scale: Scale) -> Figures:
    names = topic_names(scale.partitions)
    with peer:
        peer.create_topic(SMALL)
        for one in _brokers(peer):
            _size(one.port)
        time.sleep(SETTLE_S)
        before = _resident(peer)
        scale.say(f"W8: {peer.name}, creating {scale.partitions:,} partitions")
        figures = _created(peer, names)
        figures |= _idle(peer, scale, before, len(names) * TOPIC_PARTITIONS)
        figures |= _asked(peer, names[0])
        scale.say(f"W8: {peer.name}, restarting")
        return figures | _restarted(peer, names)


def run(brokers: list[Peer], scale: Scale) -> Outcome:
    outcome = Outcome("W8", f"{scale.partitions:,} partitions in topics of {TOPIC_PARTITIONS}", COLUMNS)
    with clusters_of(brokers) as clusters:
        alone = [("1 broker", peer) for peer in brokers]
        for case, peer in (*alone, *(("3 brokers, 3 replicas", cluster) for cluster in clusters)):
            try:
                outcome.rows.append(Row(case, peer.name, _measure(peer, scale)))
            except (PeerError, OSError) as error:
                outcome.rows.append(Row(case, peer.name, {}, f"not run: {error}"))
    return outcome
