"""WL: the longest that anybody waits for somebody else.

One broker does one large thing at a time, and beside it a bystander sends small records (`bench.bystander`):
`p50`, `p99` and `longest` are what that client waited. `stalls`, `stalled`, `stall` and `starved` are by
Ottla's own meter (`bench.stall_meter`), and the note says what the longest stall was. A machine that gives
the broker no processor stalls it, too: see `starved`, and `quiet`.

quiet        nothing else: what this machine does to such a client by itself
bulk         records of 100 B in batches of 1 MiB, as fast as it goes
cold read    one reads old records as in W5, with a megabyte a request; none are in the page cache
compaction   a log of records of 1 KiB under random keys is compacted
partitions   topics of 100 partitions are created one after the other
metadata     all of these are asked for, again and again, each time after a change
removal      these topics are deleted, and old segments of the log that was read
connections  very many connect at once, and each asks for something
load         the broker is restarted, and coordinators load much that is not in the page cache
leaders      `bench.wl_leaders`: of three brokers one loses 1,000 partitions

`--only quiet --only "cold read"` takes these cases alone; `metadata` and `removal` need `partitions`.
`--busy` has the meter count processor time, on a machine that others use.
"""

import contextlib
import os
import resource
import socket
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka.admin import ResourceType

from bench import load_coordinators, w8_partitions, w9_compaction, wire, wire_cluster, wl_leaders
from bench.bystander import Bystander
from bench.common_loads import KEPT, fill, read_all
from bench.page_cache import forget, log_files
from bench.report import Column, Figures, Outcome, Row
from bench.servers import HOST, Ottla, Peer, PeerError
from bench.stall_meter import Meter
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
    Column("stall_ms", "stall ms"),
    Column("starved_ms", "starved ms"),
    Column("broker_cpu_s", "CPU-s", 1),
)
CASES = (
    "quiet", "bulk", "cold read", "compaction", "partitions", "metadata", "removal", "connections", "load",
    "leaders",
)  # fmt: skip
SMALL, BULK, OLD, TABLE = "small", "bulk", "old", "table"
QUIET_S = 10.0
SEGMENT_BYTES = 256 << 20
OLD_RECORD_BYTES, OLD_BATCH_BYTES = 10_000, 64 << 10
CHANGES = 20
LOAD_S = 600.0
SPARE_DESCRIPTORS = 200


def _bulk(peer: Peer, scale: Scale) -> None:
    fill(peer, BULK, 4 * scale.bulk_records[100], 100, 1 << 20, LOAD_S)


def _fill(peer: Peer, scale: Scale) -> int:
    """Old records, on the disk alone; how many. Somebody has read one: that code is loaded for the first
    time is no matter of old records."""
    written = fill(peer, OLD, scale.cold_bytes // OLD_RECORD_BYTES, OLD_RECORD_BYTES, OLD_BATCH_BYTES, LOAD_S)
    _read(peer, 1)
    for path in log_files(os.path.join(peer.folder, "data"), OLD):
        forget(path)
    return written


def _read(peer: Peer, records: int) -> None:
    read_all(peer, OLD, records, timeout_s=LOAD_S)


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


def _compact(peer: Peer) -> None:
    data, folder = os.path.join(peer.folder, "data"), os.path.join(peer.folder, "data", f"{TABLE}-0")
    active = max(w9_compaction.segment_sizes(folder))
    wanted = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    w9_compaction.alter(peer, ResourceType.TOPIC, TABLE, wanted)
    deadline = time.monotonic() + LOAD_S
    while w9_compaction.cleaned_to(data, TABLE) < active:
        peer.check_alive()
        if time.monotonic() > deadline:
            raise PeerError(f"{peer.name} did not clean in {LOAD_S:.0f} s")
        time.sleep(0.05)


class _Cases:
    """Of one broker; each leaves what the next ones need."""

    def __init__(self, peer: Peer, outcome: Outcome, scale: Scale) -> None:
        self._peer, self._outcome, self._scale = peer, outcome, scale
        self._meter = Meter(peer, is_busy=scale.is_busy) if isinstance(peer, Ottla) else None

    def run(self) -> None:
        peer, scale = self._peer, self._scale
        with peer:
            for topic in (SMALL, BULK):
                peer.create_topic(topic, KEPT)
            self._measure("quiet", lambda: time.sleep(QUIET_S))
            self._measure("bulk", lambda: _bulk(peer, scale))
            self._read_old()
            self._compact()
            self._measure("partitions", lambda: _create(peer, scale))
            self._measure("metadata", lambda: _ask_for_all(peer))
            self._measure("removal", lambda: _remove(peer, scale))
            self._measure("connections", lambda: _connect(peer, scale))
            self._load()

    def _is_wanted(self, case: str) -> bool:
        return not self._scale.only or case in self._scale.only

    def _measure(self, case: str, work: Callable[[], Any], *, at_start: bool = False) -> None:
        if not self._is_wanted(case):
            return
        peer, meter = self._peer, self._meter
        self._scale.say(f"WL: {peer.name}, {case}")
        if meter is not None:
            meter.begin(at_start=at_start)
        cpu_s = 0.0 if at_start else peer.cpu_seconds()
        with Bystander(peer, SMALL) as bystander:
            work()
        figures: Figures = {**bystander.figures, "broker_cpu_s": peer.cpu_seconds() - cpu_s}
        own, note = meter.figures() if meter is not None else ({}, "")
        self._outcome.rows.append(Row(case, peer.name, figures | own, note))

    def _read_old(self) -> None:
        if not self._is_wanted("cold read"):
            return
        peer = self._peer
        self._scale.say(f"WL: {peer.name}, writing what is read cold")
        peer.create_topic(OLD, {**KEPT, "segment.bytes": str(SEGMENT_BYTES), "file.delete.delay.ms": "1000"})
        records = _fill(peer, self._scale)
        self._measure("cold read", lambda: _read(peer, records))

    def _compact(self) -> None:
        if not self._is_wanted("compaction"):
            return
        peer = self._peer
        self._scale.say(f"WL: {peer.name}, writing what is compacted")
        w9_compaction.alter(peer, ResourceType.BROKER, "1", {"log.cleaner.backoff.ms": "100"})
        peer.create_topic(TABLE, {"segment.bytes": str(w9_compaction.SEGMENT_BYTES)})
        w9_compaction.fill(peer, TABLE, self._scale.bulk_records[w9_compaction.RECORD_BYTES])
        self._measure("compaction", lambda: _compact(peer))

    def _load(self) -> None:
        """After a clean stop, so that there is nothing to recover."""
        if not self._is_wanted("load"):
            return
        peer = self._peer
        self._scale.say(f"WL: {peer.name}, writing what coordinators load")
        load_coordinators.fill(peer, self._scale.bulk_records[1024])
        peer.end(LOAD_S)
        load_coordinators.forget_stored(peer, forget)
        peer.start()
        peer.wait_ready()
        self._measure("load", lambda: load_coordinators.until_loaded(peer), at_start=True)


def run(brokers: list[Peer], scale: Scale) -> Outcome:
    outcome = Outcome("WL", "the longest that anybody waits for somebody else", COLUMNS)
    for broker in brokers:
        peer = Ottla(broker.settings) if isinstance(broker, Ottla) else broker
        try:
            _Cases(peer, outcome, scale).run()
        except (PeerError, OSError) as error:
            outcome.rows.append(Row("", peer.name, {}, f"not run: {error}"))
    if not scale.only or "leaders" in scale.only:
        wl_leaders.add_rows(brokers, outcome, scale)
    own = [row.figures.get("stalls") for row in outcome.rows if row.peer.startswith(Ottla.name)]
    measured = [figure for figure in own if figure is not None]
    outcome.verdicts.append(Verdict(STALLS, sum(measured) if measured else None))
    quiet, cold = (outcome.figure(case, Ottla.name, "p99_us") for case in ("quiet", "cold read"))
    outcome.verdicts.append(Verdict(COLD_READER, cold / quiet if quiet and cold else None))
    return outcome
