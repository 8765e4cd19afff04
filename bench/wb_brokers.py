"""WB: the same records on one, two and four brokers of one machine: what it costs to use more cores.

Every broker leads one topic of one partition, and these are written one after the other, so the rate is that
of one broker and says nothing. The figure is processor time of all brokers for a record, which holds on a
machine with fewer cores than brokers, and with other work. With two replicas the next broker follows. `idle`
is what brokers without work take (they probe each other and hold sessions with ZooKeeper), and their memory.
They take that for as long as a load takes, so `above idle` is without it: on a slow or crowded machine it is
most of what more brokers cost. ZooKeeper's own time is not in it.
"""

import contextlib
import itertools
import time
from functools import partial

from confluent_kafka import KafkaException
from confluent_kafka.cimpl import NewTopic

from bench.clusters import Cluster, ottla_cluster
from bench.cpu_clock import cpu_seconds
from bench.load import drive
from bench.report import Column, Figures, Outcome, Row, paired_ratio, ratio
from bench.servers import Ottla, Peer, PeerError
from bench.workload import LOAD_TIMEOUT_S, Contender, Scale, take_turns, up

COLUMNS = (
    Column("records_per_cpu_s", "M rec / CPU-s", 2, 1e-6),
    Column("cpu_us_per_record", "CPU us / rec", 3, 1e6),
    Column("busy_us_per_record", "above idle", 3, 1e6),
    Column("to_first", "to the first", 2),
    Column("idle_cpu_percent", "idle CPU % each", 2),
    Column("rss_mb", "RSS MB each", 1),
)
COUNTS = (1, 2, 4)
SHAPES = ((100, 1 << 20), (100, 16 << 10))
SHARE = 2
SETTLE_S = 3.0
SETTINGS = {
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
    "broker.rack": "this-machine",
}

_topics = itertools.count()


def _cpu_s(cluster: Cluster) -> float:
    """Of the brokers alone."""
    return cpu_seconds(process.pid for node in cluster.nodes for process in node._processes())


def _make_topics(cluster: Cluster, replicas: int) -> list[str]:
    """One for each broker to lead; the next one follows."""
    count = len(cluster.nodes)
    numbers = range(count)
    wanted = {
        f"wb-{next(_topics)}": [[1 + (number + step) % count for step in range(replicas)]]
        for number in numbers
    }
    topics = [NewTopic(name, num_partitions=1, replica_assignment=given) for name, given in wanted.items()]
    admin = cluster._admin()  # kept until all is answered
    try:
        for made in admin.create_topics(topics, operation_timeout=30).values():
            made.result(60)
    except (KafkaException, TimeoutError) as error:
        raise PeerError(f"{cluster.name} did not create a topic: {error}") from error
    cluster.wait_settled()
    return list(wanted)


def _measure(
    cluster: Cluster, replicas: int, shape: tuple[int, int], records: int, idle_rate: float
) -> Figures:
    record_bytes, batch_bytes = shape
    topics = _make_topics(cluster, replicas)
    sent, used_s, took_s = 0, 0.0, 0.0
    try:
        for topic in topics:
            spec = {
                "bootstrap": cluster.bootstrap,
                "topic": topic,
                "record_bytes": record_bytes,
                "batch_bytes": batch_bytes,
                "records": records // len(topics),
            }
            before = 0.0

            def on_go() -> None:
                nonlocal before
                before = _cpu_s(cluster)

            result = drive("bulk", spec, None, LOAD_TIMEOUT_S, on_go)
            used_s += _cpu_s(cluster) - before
            sent, took_s = sent + result["records"], took_s + result["seconds"]
    finally:
        for topic in topics:
            cluster.delete_topic(topic)
    busy_s = used_s - idle_rate * took_s
    return {
        "records_per_cpu_s": ratio(sent, used_s),
        "cpu_us_per_record": ratio(used_s, sent),
        "busy_us_per_record": ratio(busy_s, sent),
    }


def _idle(cluster: Cluster, idle_s: float) -> Figures:
    time.sleep(SETTLE_S)
    before, began = _cpu_s(cluster), time.perf_counter()
    time.sleep(idle_s)
    busy = (_cpu_s(cluster) - before) / (time.perf_counter() - began) / len(cluster.nodes)
    resident = [node.memory_bytes()[0] for node in cluster.nodes]
    return {"idle_cpu_percent": 100 * busy, "rss_mb": sum(resident) / len(resident) / 1e6}


def run(brokers: list[Peer], scale: Scale) -> Outcome:
    outcome = Outcome("WB", "bulk produce to one, two and four brokers of one machine, CPU time", COLUMNS)
    with contextlib.ExitStack() as stack:
        ottla = next((broker for broker in brokers if isinstance(broker, Ottla)), None)
        clusters = [ottla_cluster(ottla, SETTINGS, count) for count in COUNTS] if ottla else []
        running = stack.enter_context(up(clusters, outcome, scale))
        ready = [cluster for cluster in running if isinstance(cluster, Cluster)]
        idle_rates: dict[str, float] = {}
        for cluster in ready:
            scale.say(f"WB: {cluster.name}, idle, then warming up")
            idle = _idle(cluster, scale.idle_s)
            outcome.rows.append(Row("idle", cluster.name, idle))
            idle_rates[cluster.name] = len(cluster.nodes) * (idle["idle_cpu_percent"] or 0.0) / 100
            with contextlib.suppress(PeerError):
                _measure(cluster, 1, SHAPES[0], scale.bulk_records[100] // 8, 0.0)
        for replicas, shape in itertools.product((1, 2), SHAPES):
            able = [cluster for cluster in ready if len(cluster.nodes) >= replicas]
            records = scale.bulk_records[100] // SHARE
            batch = f"{shape[1] >> 10} KiB"
            case = f"100 B in {batch}, {replicas} replica{'s' if replicas > 1 else ''}"
            contenders = [
                Contender(
                    cluster.name,
                    partial(_measure, cluster, replicas, shape, records, idle_rates[cluster.name]),
                )
                for cluster in able
            ]
            take_turns(case, contenders, outcome, scale.bulk_rounds, scale.say)
    outcome.rows = [_compared(row, outcome) for row in outcome.rows]
    return outcome


def _compared(row: Row, outcome: Outcome) -> Row:
    first = next(other for other in outcome.rows if other.case == row.case)
    compared = paired_ratio(row, first, "busy_us_per_record")
    return Row(row.case, row.peer, {**row.figures, "to_first": compared}, row.note, row.rounds)
