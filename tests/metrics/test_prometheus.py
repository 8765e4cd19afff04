"""A real Prometheus watches a cluster while a broker is killed, a group lags and a disk stalls."""

import contextlib
import re
import threading
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from tests.cluster.real import QUIET, RealBroker
from tests.kafka_clients.wire_client import Closed, Wire
from tests.metrics.rules import dashboard_queries, hurried_rules, rules
from tests.metrics.stalling import StallingCluster
from tests.support.processes import running
from tests.support.prometheus import Prometheus
from tests.support.waiting import wait_for

from ottla.base.errors import ErrorCode
from ottla.records.builder import NewRecord, build_batch
from ottla.wire.frame import LENGTH
from ottla.wire.header import RequestHeader, encode_request_header

METADATA = 3
HURRY = 60  # a minute of the rules is a second here
LAG = 12_000  # records, more than an alert allows
SEEN_S = 90.0
SPAN_S, LASTING_S = 10, 3
LASTS_S = 3.0

pytestmark = pytest.mark.timeout(400)


class Traffic:
    """A producer, a group that keeps up and one that stopped; errors now and then."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap, self._topic = bootstrap, topic
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=run) for run in (self._produce, self._consume)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(60)

    def _produce(self) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "linger.ms": 20, **QUIET})
        while not self._ended.wait(0.05):
            for _ in range(100):
                producer.produce(self._topic, b"x" * 100)
            producer.poll(0)
        producer.flush(20)

    def _consume(self) -> None:
        settings = {"bootstrap.servers": self._bootstrap, "auto.offset.reset": "earliest", **QUIET}
        keeping_up = Consumer({**settings, "group.id": "keeps-up", "auto.commit.interval.ms": 500})
        keeping_up.subscribe([self._topic])
        behind = Consumer({**settings, "group.id": "lags", "enable.auto.commit": False})
        behind.commit(offsets=[TopicPartition(self._topic, 0, 0)], asynchronous=False)
        behind.close()
        lost = Consumer({**settings, "group.id": "lost", "auto.offset.reset": "error"})
        lost.assign([TopicPartition(self._topic, 0, 1 << 40)])  # Fetch: OFFSET_OUT_OF_RANGE
        while not self._ended.is_set():
            keeping_up.poll(0.1)
            with contextlib.suppress(KafkaException):
                lost.poll(0)
        keeping_up.close()
        lost.close()


def send_oddities(broker: RealBroker, topic: str) -> None:
    """A batch with a wrong checksum, once the leader knows that it leads; a version that nobody serves."""
    batch = bytearray(build_batch([NewRecord(None, b"value")]))
    batch[-1] ^= 1
    unserved = encode_request_header(RequestHeader(METADATA, 99, 2, "odd"))
    with Wire(broker.port, host=broker.host) as wire:
        wait_for(
            lambda: wire.produce(topic, bytes(batch)).error_code == ErrorCode.CORRUPT_MESSAGE,
            60,
            "the leader to refuse the batch for what it is",
        )
        wire.send_bytes(LENGTH.pack(len(unserved)) + unserved)
        with pytest.raises(Closed):
            wire.receive_frame()


@pytest.fixture(scope="module")
def watcher(cluster: StallingCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    targets = {str(broker.id): broker.http for broker in cluster.brokers.values()}
    made = Prometheus(tmp_path_factory.mktemp("prometheus"), targets, hurried_rules(HURRY, SPAN_S, LASTING_S))
    with running(made):
        yield made


@pytest.fixture(scope="module")
def traffic(cluster: StallingCluster) -> Iterator[str]:
    cluster.create_topic("orders", partitions=1)
    made = Traffic(cluster.bootstrap, "orders")
    try:
        made.start()
        send_oddities(cluster.brokers[cluster.leader("orders")], "orders")
        yield "orders"
    finally:
        made.stop()


def unanswered(watcher: Prometheus, queries: list[str]) -> list[str]:
    return [query for query in queries if not watcher.ask(query)]


def without_thresholds(query: str) -> list[str]:
    """What a rule looks at, whatever its values: the parts before the comparisons."""
    return [part.rsplit(" ", 2)[0] for part in re.split(" and | or ", query)]


def test_every_query_of_the_dashboard_and_of_the_rules_returns_data(
    cluster: StallingCluster, watcher: Prometheus, traffic: str
) -> None:
    queries = dashboard_queries()
    for rule in rules():
        queries += without_thresholds(re.sub(r"\[[^]]*\]", "[15s]", rule["expr"]))
    wait_for(lambda: not unanswered(watcher, queries), SEEN_S, lambda: f"{unanswered(watcher, queries)}")


def test_alerts_fire_on_what_happens_and_no_others_do(
    cluster: StallingCluster, watcher: Prometheus, traffic: str
) -> None:
    wait_for(
        lambda: (
            watcher.value(f'sum(kafka_consumergroup_lag{{consumergroup="lags",topic="{traffic}"}})') > LAG
        ),
        SEEN_S,
        "the group lags",
    )
    fires(watcher, {"OttlaGroupFallsBehind"})

    slow = cluster.brokers[next(id for id in cluster.brokers if id != cluster.leader(traffic))]
    slow.stall.touch()
    fires(watcher, {"OttlaGroupFallsBehind", "OttlaSlowDisk", "OttlaStalls"})
    slow.stall.unlink()
    fires(watcher, {"OttlaGroupFallsBehind"})

    cluster.brokers[cluster.leader(traffic)].kill()
    fires(watcher, {"OttlaGroupFallsBehind", "OttlaBrokerDown", "OttlaUnderReplicated"})
    cluster.restore()
    fires(watcher, {"OttlaGroupFallsBehind"})


def fires(watcher: Prometheus, alerts: set[str]) -> None:
    """These alerts come to fire, all of them and no others, and go on to do so for a moment."""
    since = 0.0

    def lasts() -> bool:
        nonlocal since
        if watcher.firing() != alerts:
            since = 0.0
            return False
        since = since or time.monotonic()
        return time.monotonic() - since > LASTS_S

    wait_for(lasts, SEEN_S, lambda: f"exactly {sorted(alerts)} to fire; {sorted(watcher.firing())} do")
