"""W1 with 3 replicas: bulk produce to three brokers on one machine, one partition, acks=all and acks=1.

With acks=1 the clock stops at the last acknowledgement; `replicated` is when the others had all of it, too.
CPU-seconds are those of all three brokers and, for Ottla, of its ZooKeeper.
"""

import contextlib
import itertools

from bench.clusters import Cluster, clusters_of
from bench.load import drive
from bench.report import Column, Figures, Outcome, Row, ratio, spread
from bench.servers import Peer, PeerError
from bench.w1_bulk import CASES, name_of
from bench.workload import LOAD_TIMEOUT_S, Contender, Scale, take_turns, up

COLUMNS = (
    Column("records_per_s", "k rec/s", 0, 1e-3),
    Column("mb_per_s", "MB/s"),
    Column("seconds", "acked s", 2),
    Column("stored_s", "replicated s", 2),
    Column("broker_cpu_s", "brokers CPU-s", 2),
    Column("records_per_cpu_s", "M rec / CPU-s", 2, 1e-6),
    Column("client_cpu_s", "client CPU-s", 2),
    Column("rate_spread", "spread %", 0, 100),
    Column("batch_bytes_mean", "batch KiB", 1, 1 / 1024),
)
ACKS = ("all", "1")
SHARE = 2
"""Of a run with one replica: three are written, on the same machine."""

_topics = itertools.count()


def _measure(cluster: Cluster, acks: str, shape: tuple[int, int], records: int) -> Figures:
    record_bytes, batch_bytes = shape
    topic = f"bulk-{next(_topics)}"
    cluster.create_topic(topic)
    spec = {
        "bootstrap": cluster.bootstrap,
        "topic": topic,
        "record_bytes": record_bytes,
        "batch_bytes": batch_bytes,
        "records": records,
        "acks": acks,
    }
    try:
        result = drive("bulk", spec, cluster, LOAD_TIMEOUT_S)
    finally:
        cluster.delete_topic(topic)
    rate = result["records"] / result["seconds"]
    return {
        "records": result["records"],
        "seconds": result["seconds"],
        "stored_s": result["stored_s"],
        "records_per_s": rate,
        "mb_per_s": rate * record_bytes / 1e6,
        "broker_cpu_s": result["broker_cpu_s"],
        "records_per_cpu_s": ratio(result["records"], result["broker_cpu_s"]),
        "client_cpu_s": result["client_cpu_s"],
        "batch_bytes_mean": result["batch_bytes_mean"],
    }


def _contender(cluster: Cluster, acks: str, shape: tuple[int, int], records: int) -> Contender:
    return Contender(cluster.name, lambda: _measure(cluster, acks, shape, records))


def run(brokers: list[Peer], scale: Scale) -> Outcome:
    outcome = Outcome("W1R", "bulk produce, 1 partition, 3 replicas on 3 brokers of one machine", COLUMNS)
    with clusters_of(brokers) as clusters, up(clusters, outcome, scale) as running:
        ready = [one for one in running if isinstance(one, Cluster)]
        for cluster, shape in itertools.product(ready, CASES):
            scale.say(f"W1R: warming up {cluster.name}, {name_of(*shape)}")
            with contextlib.suppress(PeerError):
                _measure(cluster, "all", shape, scale.bulk_records[shape[0]] // 8)
        for shape, acks in itertools.product(CASES, ACKS):
            records = scale.bulk_records[shape[0]] // SHARE
            contenders = [_contender(cluster, acks, shape, records) for cluster in ready]
            case = f"{name_of(*shape)}, acks={acks}"
            take_turns(case, contenders, outcome, scale.bulk_rounds, scale.say)
    outcome.rows = [
        Row(
            row.case,
            row.peer,
            {**row.figures, "rate_spread": spread(row, "records_per_s")},
            row.note,
            row.rounds,
        )
        for row in outcome.rows
    ]
    return outcome
