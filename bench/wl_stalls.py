"""WL: the longest that anybody waits for somebody else.

One broker does one large thing at a time, and beside it a bystander sends small records (`bench.bystander`):
`p50`, `p99` and `longest` are what that client waited. `stalls` is how often Ottla's own meter has seen that
everybody waited for more than 50 ms (ottla_stalls_total), `stalled` how long that was altogether; the note
says for what, mostly. A machine that gives the broker no processor stalls it, too: see `quiet`.

quiet        nothing else: what this machine does to such a client by itself
bulk         records of 100 B in batches of 1 MiB, as fast as it goes
cold read    a consumer reads old records, none of which are in the page cache
partitions   topics of 100 partitions are created one after the other
metadata     all of these are asked for, again and again, each time after a change
removal      these topics are deleted, and old segments of the log that was read
connections  very many connect at once, and each asks for something
"""

import contextlib
import os
import re
import resource
import socket
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from typing import Any

from bench import w8_partitions, wire, wire_cluster
from bench.bystander import Bystander
from bench.common_loads import KEPT, fill
from bench.load import drive
from bench.page_cache import forget, log_files
from bench.report import Column, Figures, Outcome, Row
from bench.servers import HOST, Ottla, Peer, PeerError, free_port
from bench.targets import COLD_READER, STALLS, Verdict
from bench.workload import Scale

COLUMNS = (
    Column("seconds", "s", 1),
    Column("records", "asked"),
    Column("p50_us", "p50 ms", 2, 1e-3),
    Column("p99_us", "p99 ms", 2, 1e-3),
    Column("longest_us", "longest ms", 0, 1e-3),
    Column("stalls", "stalls"),
    Column("stalled_ms", "stalled ms"),
    Column("broker_cpu_s", "CPU-s", 1),
)
THRESHOLD_MS = 50
SMALL, BULK, OLD = "small", "bulk", "old"
QUIET_S = 10.0
SEGMENT_BYTES = 256 << 20
OLD_RECORD_BYTES = 10_000
CHANGES = 20
LOAD_S = 600.0
SPARE_DESCRIPTORS = 200
_STALL = re.compile(
    r'^(ottla_stalls_total|ottla_stall_seconds_total)\{cause="([^"]*)"\} (\S+)$', re.MULTILINE
)


class Measured(Ottla):
    """With metrics, which say what everybody waited for."""

    def __init__(self, settings: tuple[str, ...]) -> None:
        self.http_port = free_port()
        more = (
            f"ottla.stall.threshold.ms={THRESHOLD_MS}",
            f"ottla.http.listener={HOST}:{self.http_port}",
            "ottla.metrics.partitions.enable=false",
        )
        super().__init__((*settings, *more))

    def stalls(self) -> Counter[tuple[str, str]]:
        """How many, and how many seconds, by metric and cause."""
        with urllib.request.urlopen(f"http://{HOST}:{self.http_port}/metrics", timeout=LOAD_S) as answer:
            page = answer.read().decode()
        return Counter({(name, cause): float(figure) for name, cause, figure in _STALL.findall(page)})


def _stalls_since(peer: Measured, before: Counter[tuple[str, str]]) -> tuple[Figures, str]:
    since = peer.stalls() - before
    seconds = Counter({cause: count for (name, cause), count in since.items() if "seconds" in name})
    stalls = sum(count for (name, _), count in since.items() if "seconds" not in name)
    note = ", ".join(cause for cause, _ in seconds.most_common(2))
    return {"stalls": stalls, "stalled_ms": 1e3 * seconds.total()}, note


def _bulk(peer: Peer, scale: Scale) -> None:
    fill(peer, BULK, 4 * scale.bulk_records[100], 100, 1 << 20, LOAD_S)


def _fill(peer: Peer, scale: Scale) -> int:
    """Old records, on the disk alone; how many."""
    written = fill(peer, OLD, scale.cold_bytes // OLD_RECORD_BYTES, OLD_RECORD_BYTES, 1 << 20, LOAD_S)
    for path in log_files(os.path.join(peer.folder, "data"), OLD):
        forget(path)
    return written


def _read(peer: Peer, records: int) -> None:
    drive("fetch", {"bootstrap": peer.bootstrap, "topic": OLD, "records": records}, peer, LOAD_S)


def _create(peer: Peer, scale: Scale) -> None:
    w8_partitions.create(peer, w8_partitions.topic_names(scale.partitions))


def _ask_for_all(peer: Peer) -> None:
    request = wire_cluster.metadata_v12(None)
    with wire.connect(HOST, peer.port, LOAD_S) as sock:
        for number in range(CHANGES):
            peer.create_topic(f"change-{number}")
            wire_cluster.ask(sock, request)


def _remove(peer: Peer, scale: Scale) -> None:
    for name in (OLD, *w8_partitions.topic_names(scale.partitions)):
        peer.delete_topic(name)
    time.sleep(3.0)  # until the files are removed, a second later


def _connect(peer: Peer, scale: Scale) -> None:
    """As many as there are descriptors for."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - SPARE_DESCRIPTORS
    request = wire_cluster.metadata_v12(SMALL)
    with contextlib.ExitStack() as stack:
        sockets = []
        for _ in range(min(scale.connections, most)):
            sock = stack.enter_context(socket.socket())
            sock.settimeout(LOAD_S)
            sock.connect((HOST, peer.port))
            sockets.append(sock)
        for sock in sockets:
            sock.sendall(request)
        for sock in sockets:
            wire.read_frame(sock)


def _measure(peer: Peer, case: str, work: Callable[[], Any]) -> Row:
    before = peer.stalls() if isinstance(peer, Measured) else Counter()
    cpu_s = peer.cpu_seconds()
    with Bystander(peer, SMALL) as bystander:
        work()
    figures: Figures = {**bystander.figures, "broker_cpu_s": peer.cpu_seconds() - cpu_s}
    note = ""
    if isinstance(peer, Measured):
        own, note = _stalls_since(peer, before)
        figures |= own
    return Row(case, peer.name, figures, note)


def _rows(peer: Peer, outcome: Outcome, scale: Scale) -> None:
    for topic in (SMALL, BULK):
        peer.create_topic(topic, KEPT)
    peer.create_topic(OLD, {**KEPT, "segment.bytes": str(SEGMENT_BYTES), "file.delete.delay.ms": "1000"})
    cases: list[tuple[str, Callable[[], Any]]] = [
        ("quiet", lambda: time.sleep(QUIET_S)),
        ("bulk", lambda: _bulk(peer, scale)),
    ]
    for case, work in cases:
        _say_and_measure(peer, case, work, outcome, scale)
    scale.say(f"WL: {peer.name}, writing what is read cold")
    records = _fill(peer, scale)
    for case, work in (
        ("cold read", lambda: _read(peer, records)),
        ("partitions", lambda: _create(peer, scale)),
        ("metadata", lambda: _ask_for_all(peer)),
        ("removal", lambda: _remove(peer, scale)),
        ("connections", lambda: _connect(peer, scale)),
    ):
        _say_and_measure(peer, case, work, outcome, scale)


def _say_and_measure(peer: Peer, case: str, work: Callable[[], Any], outcome: Outcome, scale: Scale) -> None:
    scale.say(f"WL: {peer.name}, {case}")
    outcome.rows.append(_measure(peer, case, work))


def run(brokers: list[Peer], scale: Scale) -> Outcome:
    outcome = Outcome("WL", "the longest that anybody waits for somebody else", COLUMNS)
    for peer in brokers:
        if isinstance(peer, Ottla):
            peer = Measured(peer.settings)
        try:
            with peer:
                _rows(peer, outcome, scale)
        except (PeerError, OSError) as error:
            outcome.rows.append(Row("", peer.name, {}, f"not run: {error}"))
    own = [row.figures.get("stalls") for row in outcome.rows if row.peer == Ottla.name]
    measured = [figure for figure in own if figure is not None]
    outcome.verdicts.append(Verdict(STALLS, sum(measured) if measured else None))
    quiet, cold = (outcome.figure(case, Ottla.name, "p99_us") for case in ("quiet", "cold read"))
    outcome.verdicts.append(Verdict(COLD_READER, cold / quiet if quiet and cold else None))
    return outcome
