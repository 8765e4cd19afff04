"""W10, the half without replicas: how long a broker is away after kill -9 with gigabytes never synced.

Topics of one partition are filled, each up to less than a segment, so that nothing is rolled and thereby
synced: all of it has to be read and checked again. The time runs from the start of the process to the first
record that is acknowledged on the topic that is opened last.

The limit is `unflushed / min(P, C) + t_open`: P is the rate at which this program reads the same files in the
same state of the page cache, C that of CRC-32C, and t_open is what a start over the same folder takes after a
clean stop. Each broker has its own t_open; P and C are the machine's.
"""

import math
import os
import shutil
import time

from crc32c import crc32c

from bench import wire
from bench.report import Column, Figures, Outcome, Row, medians
from bench.servers import HOST, Peer, PeerError
from bench.targets import RECOVERY_RATIO, Verdict
from bench.w11_start import until_acknowledged
from bench.workload import Scale

COLUMNS = (
    Column("recovery_s", "recovery s", 2),
    Column("limit_s", "limit s", 2),
    Column("ratio", "ratio", 2),
    Column("clean_start_s", "clean start s", 2),
    Column("cpu_s", "CPU-s", 2),
    Column("log_mb", "unsynced MB"),
    Column("read_gb_per_s", "P GB/s", 2),
    Column("crc_gb_per_s", "C GB/s", 2),
)
RECORD_BYTES = 1024
BATCH_BYTES = 256 << 10
TOPIC_BYTES_MAX = 900 << 20  # a segment is 1 GiB
ROOM_FACTOR = 3
READ_BYTES = 1 << 20
START_S = 600.0
STOP_S = 300.0  # it has all of that to sync
IN_FLIGHT = 8


def _fill(peer: Peer, topic: str, size: int) -> None:
    batch, _ = wire.record_batch(os.urandom(RECORD_BYTES), BATCH_BYTES)
    request, at = wire.produce_request(topic, batch), wire.error_offset(topic)
    count = max(size // len(batch), 1)
    with wire.connect(HOST, peer.port, 60.0) as sock:
        sock.sendall(request * min(IN_FLIGHT, count))
        buffer = b""
        for number in range(count):
            while len(buffer) < 4 or len(buffer) < 4 + int.from_bytes(buffer[:4], "big"):
                more = sock.recv(65536)
                if not more:
                    raise PeerError(f"{peer.name} closed the connection while it was filled")
                buffer += more
            code = wire.produce_error(buffer, at)
            if code:
                raise PeerError(f"{peer.name} answered Produce with error {code}")
            buffer = buffer[4 + int.from_bytes(buffer[:4], "big") :]
            if number + IN_FLIGHT < count:
                sock.sendall(request)


def _segments(peer: Peer, topics: list[str]) -> list[str]:
    folders = [os.path.join(peer.folder, "data", f"{topic}-0") for topic in topics]
    found = [os.path.join(one, name) for one in folders for name in os.listdir(one) if name.endswith(".log")]
    if len(found) != len(topics):
        raise PeerError(f"{peer.name} has {len(found)} segments for {len(topics)} topics: some were synced")
    return found


def _read_rate(paths: list[str]) -> float:
    """Bytes per second, through all files once."""
    buffer = bytearray(READ_BYTES)
    total, began = 0, time.perf_counter()
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        try:
            while read := os.readv(fd, [buffer]):
                total += read
        finally:
            os.close(fd)
    return total / (time.perf_counter() - began)


def _crc_rate() -> float:
    data = os.urandom(BATCH_BYTES)
    best = math.inf
    for _ in range(200):
        began = time.perf_counter()
        crc32c(data)
        best = min(best, time.perf_counter() - began)
    return len(data) / best


def _start(peer: Peer, topic: str) -> float:
    began = time.perf_counter()
    peer.start()
    until_acknowledged(peer, topic, began + START_S)
    return time.perf_counter() - began


def _measure(peer: Peer, size: int, scale: Scale) -> Figures:
    topics = [f"part{number}" for number in range(math.ceil(size / TOPIC_BYTES_MAX))]
    peer.prepare()
    try:
        peer.start()
        peer.wait_ready()
        for topic in topics:
            peer.create_topic(topic, {"retention.ms": "-1"})  # the records' time is long ago
        for topic in topics:
            scale.say(f"W10: {peer.name}, filling {topic} of {len(topics)}")
            _fill(peer, topic, size // len(topics))
        peer.kill()
        paths = _segments(peer, topics)
        unsynced = sum(os.path.getsize(path) for path in paths)
        scale.say(f"W10: {peer.name}, recovery of {unsynced / 1e9:.1f} GB")
        recovery_s = _start(peer, topics[-1])
        cpu_s = peer.cpu_seconds()
        read_rate, crc_rate = _read_rate(paths), _crc_rate()
        peer.end(STOP_S)
        clean_s = _start(peer, topics[-1])
    finally:
        peer.stop()
    limit_s = unsynced / min(read_rate, crc_rate) + clean_s
    return {
        "recovery_s": recovery_s,
        "limit_s": limit_s,
        "ratio": recovery_s / limit_s,
        "clean_start_s": clean_s,
        "cpu_s": cpu_s,
        "log_mb": unsynced / 1e6,
        "read_gb_per_s": read_rate / 1e9,
        "crc_gb_per_s": crc_rate / 1e9,
    }


def _size(scale: Scale, outcome: Outcome) -> int:
    """As much as was asked for, if the disk has room for it."""
    free = shutil.disk_usage(os.environ.get("TMPDIR", "/tmp")).free
    room = free // ROOM_FACTOR
    if scale.recovery_bytes > room:
        outcome.notes.append(f"only {room / 1e9:.1f} GB: the disk has {free / 1e9:.1f} GB free")
    return min(scale.recovery_bytes, room)


def run(brokers: list[Peer], scale: Scale) -> Outcome:
    outcome = Outcome("W10", "recovery after kill -9", COLUMNS)
    size = _size(scale, outcome)
    case = f"{size / 1e9:.1f} GB never synced"
    for peer in brokers:
        try:
            rounds = tuple(_measure(peer, size, scale) for _ in range(scale.recovery_rounds))
            outcome.rows.append(Row(case, peer.name, medians(rounds), "", rounds))
        except PeerError as error:
            outcome.rows.append(Row(case, peer.name, {}, f"not run: {error}"))
    outcome.verdicts = [Verdict(RECOVERY_RATIO, outcome.figure(case, "Ottla", "ratio"))]
    return outcome
