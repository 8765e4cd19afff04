"""W2: one message at a time, with and without an fsync for each.

linger 0, acks=all, one request in flight per producer. `raw` is a blocking socket with a pre-encoded
request: little noise, so its p50 is the one that is judged. `librdkafka` is what an application sees.
The fsync comes from the topic's `flush.messages=1`, which every broker here understands; the run also
measures what the disk takes for one, so that a broker which skips it is found out.
"""

import contextlib
import itertools
import os
import tempfile
import time

from bench.common_loads import send_singly
from bench.report import Column, Figures, Outcome, Row, paired_ratio, spread
from bench.servers import MockCluster, Peer, PeerError
from bench.targets import SINGLE_P50_RATIO, Verdict
from bench.workload import Contender, Scale, take_turns, up

COLUMNS = (
    Column("messages_per_s", "msg/s"),
    Column("p50_us", "p50 us"),
    Column("p99_us", "p99 us"),
    Column("p999_us", "p99.9 us"),
    Column("broker_cpu_s", "broker CPU-s", 2),
    Column("cpu_us_per_message", "CPU us / msg", 1),
    Column("p50_spread", "p50 spread %", 0, 100),
    Column("p50_of_apache", "p50 / Apache", 2),
)
RECORD_BYTES = 100
PRODUCERS = (1, 8, 64)
CLIENTS = {"raw": "single-raw", "librdkafka": "single-rdkafka"}
TOPICS = {"": {}, "fsync": {"flush.messages": "1"}}


def name_of(client: str, producers: int, durable: str) -> str:
    people = "1 producer" if producers == 1 else f"{producers} producers"
    return ", ".join(part for part in (client, people, durable) if part)


def _topic(durable: str) -> str:
    return f"single{durable}"


def _measure(client: str, peer: Peer, producers: int, durable: str, seconds: float) -> Figures:
    return send_singly(CLIENTS[client], peer, _topic(durable), RECORD_BYTES, producers, seconds)


def _contender(
    client: str, peer: Peer, producers: int, durable: str, seconds: float, refused: dict[tuple[str, str], str]
) -> Contender:
    def measure() -> Figures:
        # Auto-creation would quietly make a topic without the fsync.
        if (peer.name, durable) in refused:
            raise PeerError(refused[peer.name, durable])
        return _measure(client, peer, producers, durable, seconds)

    return Contender(peer.name, measure)


def _prepare(running: list[Peer], scale: Scale) -> dict[tuple[str, str], str]:
    """Topics, and messages enough for a JVM to compile. Returns why a peer does not have a topic."""
    refused: dict[tuple[str, str], str] = {}
    for peer in running:
        scale.say(f"W2: warming up {peer.name}")
        for durable, config in TOPICS.items():
            try:
                peer.create_topic(_topic(durable), config)
            except PeerError as error:
                refused[peer.name, durable] = str(error)
        with contextlib.suppress(PeerError):
            # librdkafka first: on a peer without CreateTopics its Metadata makes the topic.
            _measure("librdkafka", peer, 1, "", scale.warm_s / 2)
            _measure("raw", peer, 8, "", scale.warm_s)
    return refused


def disk_sync_us(times: int = 200) -> float:
    """Median of one small append with fdatasync, in the folder where the brokers keep their data."""
    taken_s = []
    with tempfile.NamedTemporaryFile(prefix="ottla-bench-") as file:
        for _ in range(times):
            started = time.perf_counter()
            os.write(file.fileno(), b"x" * 200)
            os.fdatasync(file.fileno())
            taken_s.append(time.perf_counter() - started)
    return sorted(taken_s)[times // 2] * 1e6


def _compare(outcome: Outcome, sync_us: float) -> None:
    """p50 against Apache Kafka's in the same case, and a word about an fsync that was too fast to be one."""
    for at, row in enumerate(outcome.rows):
        p50_us = row.figures.get("p50_us")
        figures = {
            **row.figures,
            "p50_spread": spread(row, "p50_us"),
            "p50_of_apache": paired_ratio(row, outcome.row(row.case, "Apache"), "p50_us"),
        }
        note = row.note
        if row.case.endswith("1 producer, fsync") and p50_us is not None and p50_us < sync_us / 2:
            note = "faster than the disk: was it synced?"
        outcome.rows[at] = Row(row.case, row.peer, figures, note, row.rounds)


def run(brokers: list[Peer], scale: Scale) -> Outcome:
    outcome = Outcome("W2", f"one message of {RECORD_BYTES} B at a time, acks=all, linger 0", COLUMNS)
    with up([MockCluster(), *brokers], outcome, scale) as running:
        refused = _prepare(running, scale)
        for durable, client, producers in itertools.product(TOPICS, CLIENTS, PRODUCERS):
            contenders = [
                _contender(client, peer, producers, durable, scale.single_s, refused)
                for peer in running
                if peer.takes_topic_configs or not durable
            ]
            case = name_of(client, producers, durable)
            take_turns(case, contenders, outcome, scale.single_rounds, scale.say)
    sync_us = disk_sync_us()
    outcome.notes.append(f"append and fdatasync on this disk: {sync_us:,.0f} us (median)")
    _compare(outcome, sync_us)
    for client in CLIENTS:
        case = name_of(client, 1, "")
        outcome.verdicts.append(
            Verdict(SINGLE_P50_RATIO, outcome.figure(case, "Ottla", "p50_of_apache"), case)
        )
    return outcome
