"""W3: 1,000 partitions written at once. 50 producers, records of 100 B with keys, linger 5 ms, acks=all.

Few records of one producer meet in a partition within its linger, so a request has many small batches: the
opposite of W1. Requests, appends and index entries are what costs here, and not bytes.
"""

import contextlib
from typing import Any

from bench.load import drive
from bench.report import Column, Figures, Outcome, with_ratio
from bench.servers import Peer, PeerError
from bench.workload import LOAD_TIMEOUT_S, Contender, Scale, take_turns, up

COLUMNS = (
    Column("records_per_s", "k rec/s", 1, 1e-3),
    Column("broker_cpu_s", "broker CPU-s", 2),
    Column("cpu_us_per_record", "CPU us / rec", 1),
    Column("spread", "spread %", 0, 100),
    Column("of_apache", "x Apache", 2),
)
TOPIC, CASE = "keyed", "1,000 partitions, 50 producers"
RECORD_BYTES, PRODUCERS, PARTITIONS = 100, 50, 1_000


def _measure(peer: Peer, seconds: float) -> Figures:
    spec: dict[str, Any] = {
        "bootstrap": peer.bootstrap,
        "topic": TOPIC,
        "record_bytes": RECORD_BYTES,
        "producers": PRODUCERS,
        "seconds": seconds,
    }
    result = drive("keyed", spec, peer, LOAD_TIMEOUT_S)
    return {
        "records_per_s": result["records"] / result["seconds"],
        "broker_cpu_s": result["broker_cpu_s"],
        "cpu_us_per_record": 1e6 * result["broker_cpu_s"] / result["records"],
    }


def run(brokers: list[Peer], scale: Scale) -> Outcome:
    outcome = Outcome("W3", f"{PARTITIONS:,} partitions, keys, {PRODUCERS} producers, acks=all", COLUMNS)
    with up(brokers, outcome, scale) as running:
        for peer in running:
            scale.say(f"W3: warming up {peer.name}")
            peer.create_topic(TOPIC, partitions=PARTITIONS)
            with contextlib.suppress(PeerError):
                _measure(peer, scale.warm_s)
        contenders = [
            Contender(peer.name, lambda peer=peer: _measure(peer, 4 * scale.single_s)) for peer in running
        ]  # type: ignore[misc]
        take_turns(CASE, contenders, outcome, scale.single_rounds, scale.say)
    with_ratio(outcome, "records_per_s")
    return outcome
