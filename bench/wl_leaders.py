"""WL on three brokers: one of them leads 1,000 partitions, and others take over, and give them back.

handed over  the broker that leads them is stopped; the bystander's broker leads them from then on
lost         it is back, and leads them again, as it is the preferred leader of all: the bystander's broker
             loses them
"""

import contextlib
import time
from collections.abc import Callable

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench import wire, wire_cluster
from bench.bystander import Bystander
from bench.clusters import Cluster, clusters_of
from bench.report import Figures, Outcome, Row
from bench.servers import HOST, Ottla, Peer, PeerError
from bench.stall_meter import Meter
from bench.workload import Scale

PARTITIONS_MAX = 1_000
MANY, SMALL = "many", "small"
PATIENCE_S = 120.0
SETTLE_S = 1.0


def _create(cluster: Cluster, scale: Scale) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    count = min(scale.partitions, PARTITIONS_MAX)
    wanted = [
        NewTopic(MANY, count, replica_assignment=[[1, 2] for _ in range(count)]),
        NewTopic(SMALL, 1, replica_assignment=[[2]], config={"min.insync.replicas": "1"}),
    ]
    try:
        for made in admin.create_topics(wanted, operation_timeout=60, request_timeout=70).values():
            made.result(80)
    except (KafkaException, TimeoutError) as error:
        raise PeerError(f"{cluster.name} did not create the topics: {error}") from error
    cluster.wait_settled()


def _elect(cluster: Cluster) -> None:
    number = cluster.controller() if cluster.keeper else 1  # a broker of KRaft's passes it on
    with wire.connect(HOST, cluster.nodes[number - 1].port, PATIENCE_S) as sock:
        wire_cluster.ask(sock, wire_cluster.elect_preferred_leaders())


def _until_led_by(cluster: Cluster, broker: int) -> None:
    """All of them, as broker 2 sees it."""
    admin = AdminClient({"bootstrap.servers": cluster.nodes[1].bootstrap, "log_level": 0})
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with contextlib.suppress(KafkaException):
            partitions = admin.list_topics(MANY, timeout=10).topics[MANY].partitions.values()
            if all(partition.leader == broker for partition in partitions):
                time.sleep(SETTLE_S)  # what follows from it is seen to
                return
        time.sleep(0.05)
    raise PeerError(f"broker {broker} of {cluster.name} did not lead in {PATIENCE_S:.0f} s")


def _measure(cluster: Cluster, meters: dict[int, Meter], case: str, work: Callable[[], None]) -> Row:
    """By the meters of all brokers that are up all the time."""
    for meter in meters.values():
        meter.begin()
    before_s = {node: node.cpu_seconds() for node in cluster.nodes[1:]}
    with Bystander(cluster.nodes[1], SMALL) as bystander:
        work()
    cpu_s = sum(node.cpu_seconds() - spent_s for node, spent_s in before_s.items())
    figures: Figures = {**bystander.figures, "broker_cpu_s": cpu_s}
    note = ""
    if meters:
        measured = [meter.figures() for meter in meters.values()]
        figures |= {
            key: sum(figure for own, _ in measured if (figure := own[key]) is not None)
            for key in ("stalls", "stalled_ms", "starved_ms")
        }
        longest = [(figure, what) for own, what in measured if (figure := own["stall_ms"]) is not None]
        figures["stall_ms"], note = max(longest, default=(None, ""))
    return Row(case, cluster.name, figures, note)


def _rows(cluster: Cluster, outcome: Outcome, scale: Scale) -> None:
    nodes = [node for node in cluster.nodes if isinstance(node, Ottla)]
    meters = {node.number: Meter(node, is_busy=scale.is_busy) for node in nodes}
    with cluster:
        _create(cluster, scale)
        first = cluster.nodes[0]
        others = {number: meter for number, meter in meters.items() if number != 1}
        scale.say(f"WL: {cluster.name}, leaders handed over")

        def stop() -> None:
            first.end(PATIENCE_S)
            _until_led_by(cluster, 2)

        outcome.rows.append(_measure(cluster, others, "handed over", stop))
        first.start()
        cluster.wait_settled()
        scale.say(f"WL: {cluster.name}, leaders lost")

        def elect() -> None:
            _elect(cluster)
            _until_led_by(cluster, 1)

        outcome.rows.append(_measure(cluster, meters, "lost", elect))


def add_rows(brokers: list[Peer], outcome: Outcome, scale: Scale) -> None:
    with clusters_of(brokers) as clusters:
        for cluster in clusters:
            try:
                _rows(cluster, outcome, scale)
            except (PeerError, OSError) as error:
                outcome.rows.append(Row("leaders", cluster.name, {}, f"not run: {error}"))
