"""W4: end to end at a fixed rate. One producer, one consumer, one partition, records of 100 B, acks=all.

The clock of a record starts when it was to be sent, so a broker that pauses pays for every record which
should have been sent meanwhile. The producer sends at once (linger 0); what is due together may share a
batch.
"""

import contextlib
import itertools
from typing import Any

from bench.load import drive
from bench.report import Column, Figures, Outcome, with_ratio
from bench.servers import Peer, PeerError
from bench.workload import LOAD_TIMEOUT_S, Contender, Scale, take_turns, up

COLUMNS = (
    Column("p50_us", "p50 us"),
    Column("p99_us", "p99 us"),
    Column("p999_us", "p99.9 us"),
    Column("longest_us", "longest us"),
    Column("broker_cpu_s", "broker CPU-s", 2),
    Column("spread", "p99 spread %", 0, 100),
    Column("of_apache", "p99 x Apache", 2),
)
RECORD_BYTES = 100
RATES = (1_000, 10_000, 50_000)
_topics = itertools.count()


def _measure(peer: Peer, rate: int, seconds: float) -> Figures:
    topic = f"latency-{next(_topics)}"
    peer.create_topic(topic)
    spec: dict[str, Any] = {
        "bootstrap": peer.bootstrap,
        "topic": topic,
        "record_bytes": RECORD_BYTES,
        "rate": rate,
        "seconds": seconds,
    }
    try:
        result = drive("latency", spec, peer, LOAD_TIMEOUT_S)
    finally:
        peer.delete_topic(topic)
    return {column.key: result.get(column.key) for column in COLUMNS if column.key in result}


def run(brokers: list[Peer], scale: Scale) -> Outcome:
    outcome = Outcome("W4", f"end to end at a fixed rate, records of {RECORD_BYTES} B, acks=all", COLUMNS)
    with up(brokers, outcome, scale) as running:
        for peer in running:
            scale.say(f"W4: warming up {peer.name}")
            with contextlib.suppress(PeerError):
                _measure(peer, max(RATES), scale.warm_s)
        for rate in RATES:
            contenders = [
                Contender(peer.name, lambda peer=peer, rate=rate: _measure(peer, rate, 5 * scale.single_s))  # type: ignore[misc]
                for peer in running
            ]
            take_turns(f"{rate:,} records a second", contenders, outcome, scale.single_rounds, scale.say)
    with_ratio(outcome, "p99_us")
    outcome.notes.append("from when a record was to be sent until it was consumed, in another process")
    return outcome
