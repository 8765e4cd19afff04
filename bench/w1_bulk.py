"""W1: bulk produce. acks=all, one partition, one replica, until the last record is acknowledged.

librdkafka's mock cluster is the ceiling: a broker that only takes and forgets. It is measured inside the
client's process and in one of its own, and the faster of the two is the ceiling, whichever that is on
this machine: the client can do that much. The `replay` rows use the raw client: no batching, no
checksums on its side, so they show what the broker itself can take.
"""

import contextlib
import itertools
from typing import Any

from bench.load import drive
from bench.report import Column, Figures, Outcome, Row, paired_ratio, ratio, spread
from bench.servers import MockCluster, Peer, PeerError
from bench.targets import RECORDS_PER_CPU_SECOND, SHARE_OF_CEILING, Verdict
from bench.workload import LOAD_TIMEOUT_S, Contender, Scale, take_turns, up

COLUMNS = (
    Column("records_per_s", "k rec/s", 0, 1e-3),
    Column("mb_per_s", "MB/s"),
    Column("broker_cpu_s", "broker CPU-s", 2),
    Column("records_per_cpu_s", "M rec / CPU-s", 2, 1e-6),
    Column("client_cpu_s", "client CPU-s", 2),
    Column("ceiling_share", "% of ceiling", 0),
    Column("rate_spread", "spread %", 0, 100),
    Column("batch_bytes_mean", "batch KiB", 1, 1 / 1024),
)
CASES = tuple(itertools.product((100, 1024), (16 << 10, 1 << 20)))
HEADLINE = (100, 1 << 20)
IN_CLIENT = "mock (in the client)"
IN_FLIGHT = 5
# Below this share of the wanted size, a case does not measure what its name says.
BATCH_SHARE_MIN = 0.8

_topics = itertools.count()


def name_of(record_bytes: int, batch_bytes: int) -> str:
    record = f"{record_bytes} B" if record_bytes < 1024 else f"{record_bytes >> 10} KiB"
    batch = f"{batch_bytes >> 10} KiB" if batch_bytes < 1 << 20 else f"{batch_bytes >> 20} MiB"
    return f"{record}, {batch} batches"


def _measure(kind: str, peer: Peer | None, record_bytes: int, batch_bytes: int, records: int) -> Figures:
    topic = f"bulk-{next(_topics)}"
    spec: dict[str, Any] = {
        "bootstrap": peer.bootstrap if peer else None,
        "topic": topic,
        "record_bytes": record_bytes,
        "batch_bytes": batch_bytes,
        "records": records,
        "in_flight": IN_FLIGHT,
    }
    if peer:
        peer.create_topic(topic)
    try:
        result = drive(kind, spec, peer, LOAD_TIMEOUT_S)
    finally:
        if peer:
            peer.delete_topic(topic)
    rate = result["records"] / result["seconds"]
    return {
        "records": result["records"],
        "seconds": result["seconds"],
        "records_per_s": rate,
        "mb_per_s": rate * record_bytes / 1e6,
        "broker_cpu_s": result["broker_cpu_s"],
        "records_per_cpu_s": ratio(result["records"], result["broker_cpu_s"]),
        "client_cpu_s": result.get("client_cpu_s"),
        "batch_bytes_mean": result["batch_bytes_mean"],
    }


def _contender(name: str, kind: str, peer: Peer | None, shape: tuple[int, int], records: int) -> Contender:
    return Contender(name, lambda: _measure(kind, peer, *shape, records))


def _judge_rows(case: str, batch_bytes: int, outcome: Outcome) -> None:
    """Add the share of the ceiling, and a note where the batches were smaller than the case says."""
    rows = [row for row in outcome.rows if row.case == case]
    mocks = [row for row in rows if row.peer.startswith("mock") and row.figures.get("records_per_s")]
    ceiling = max(mocks, key=lambda row: row.figures["records_per_s"] or 0.0, default=None)
    for row in rows:
        note = row.note
        bulk = "replay" not in row.peer
        figures = {**row.figures, "rate_spread": spread(row, "records_per_s")}
        if ceiling is not None and bulk:
            share = paired_ratio(row, ceiling, "records_per_s")
            figures["ceiling_share"] = None if share is None else 100 * share
        if row is ceiling:
            note = "the ceiling"
        mean = figures.get("batch_bytes_mean")
        if mean is not None and mean < BATCH_SHARE_MIN * batch_bytes:
            note = f"{note} small batches".strip()
        outcome.rows[outcome.rows.index(row)] = Row(row.case, row.peer, figures, note, row.rounds)


def _warm_up(running: list[Peer], scale: Scale) -> None:
    """A quarter of every case. A failure will show again when it counts."""
    for peer, shape in itertools.product(running, CASES):
        scale.say(f"W1: warming up {peer.name}, {name_of(*shape)}")
        with contextlib.suppress(PeerError):
            _measure("bulk", peer, *shape, scale.bulk_records[shape[0]] // 4)


def _judge(outcome: Outcome) -> None:
    per_cpu = outcome.figure(name_of(*HEADLINE), "Ottla", "records_per_cpu_s")
    millions = None if per_cpu is None else per_cpu / 1e6
    outcome.verdicts.append(Verdict(RECORDS_PER_CPU_SECOND, millions))
    for shape in CASES:
        share = outcome.figure(name_of(*shape), "Ottla", "ceiling_share")
        outcome.verdicts.append(Verdict(SHARE_OF_CEILING, share, name_of(*shape)))


def run(brokers: list[Peer], scale: Scale) -> Outcome:
    outcome = Outcome("W1", "bulk produce, acks=all, 1 partition, 1 replica", COLUMNS)
    with up([MockCluster(), *brokers], outcome, scale) as running:
        _warm_up(running, scale)
        for shape in CASES:
            record_bytes, batch_bytes = shape
            records = scale.bulk_records[record_bytes]
            case = name_of(*shape)
            contenders = [_contender(IN_CLIENT, "bulk", None, shape, records)]
            contenders += [_contender(peer.name, "bulk", peer, shape, records) for peer in running]
            contenders += [
                _contender(f"{peer.name}, replay", "replay", peer, shape, records)
                for peer in running
                if not isinstance(peer, MockCluster)
            ]
            take_turns(case, contenders, outcome, scale.bulk_rounds, scale.say)
            _judge_rows(case, batch_bytes, outcome)
    _judge(outcome)
    return outcome
