"""A cluster with something going on, for pictures and for people who want to see pages move.

Topics of a shop, producers that write, groups that read, one of which has stopped.
"""

import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from confluent_kafka import Consumer, Producer

from ottla import Cluster
from ottla.console.pipelines import Node, Pipeline, Source, Table

TOPICS = {
    "orders": (12, {"retention.ms": 604800000}),
    "payments": (6, {"retention.ms": 2592000000}),
    "customers": (6, {"cleanup.policy": "compact"}),
    "clicks": (12, {"retention.ms": 86400000}),
    "inventory": (3, {"cleanup.policy": "compact,delete", "retention.ms": 604800000}),
    "shipments": (3, {}),
    "emails.outgoing": (3, {"retention.ms": 86400000}),
    "audit": (1, {"retention.ms": -1}),
    "clicks.rejected": (1, {"retention.ms": 604800000}),
}
RATES = {
    "orders": 60,
    "clicks": 220,
    "payments": 40,
    "shipments": 12,
    "audit": 5,
    "emails.outgoing": 9,
    "clicks.rejected": 1,
}
GROUPS = {
    "billing": ["orders", "payments"],
    "search-indexer": ["inventory", "clicks"],
    "mailer": ["emails.outgoing"],
}
BATCH_S = 0.1


@contextmanager
def shop(brokers: int = 3) -> Iterator[Cluster]:
    config = {"ottla.http.listener": "127.0.0.1:0", "min.insync.replicas": 2 if brokers > 2 else 1}
    with Cluster(brokers, config=config) as cluster, ExitStack() as stack:
        for name, (partitions, configs) in TOPICS.items():
            cluster.create_topic(name, partitions, min(3, brokers), configs)
        stack.enter_context(running(lambda stopped: produce(cluster.client_config, stopped)))
        for group, topics in GROUPS.items():
            for _ in range(2 if group == "billing" else 1):
                stack.enter_context(
                    running(
                        lambda stopped, group=group, topics=topics: consume(
                            cluster.client_config, group, topics, stopped
                        )
                    )
                )
        stack.enter_context(running(lambda stopped: pay(cluster.client_config, stopped)))
        leave_behind(cluster.client_config, "reports", "orders")
        yield cluster


@contextmanager
def running(work: Any) -> Iterator[None]:
    stopped = threading.Event()
    thread = threading.Thread(target=work, args=(stopped,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join(20)


def produce(client_config: dict[str, Any], stopped: threading.Event) -> None:
    chance = random.Random(7)
    producer = Producer(client_config | {"linger.ms": 20})
    number = 0
    while not stopped.wait(BATCH_S):
        wave = 0.6 + 0.4 * abs((number % 120) / 60 - 1)
        for topic, rate in RATES.items():
            for _ in range(int(rate * wave * BATCH_S * chance.uniform(0.7, 1.3)) or 1):
                number += 1
                customer = f"customer-{chance.randrange(500)}"
                value = {
                    "id": number,
                    "customer": customer,
                    "total": round(chance.uniform(3, 400), 2),
                    "currency": "EUR",
                }
                producer.produce(topic, json.dumps(value), customer)
        producer.poll(0)
    producer.flush(10)


def pay(client_config: dict[str, Any], stopped: threading.Event) -> None:
    """One producer commits every second, and another one has forgotten to."""
    forgetful = Producer(
        client_config | {"transactional.id": "nightly-import", "transaction.timeout.ms": 600_000}
    )
    forgetful.init_transactions()
    forgetful.begin_transaction()
    forgetful.produce("inventory", b"{}", b"item-1")
    forgetful.flush(10)
    careful = Producer(client_config | {"transactional.id": "payments-1"})
    careful.init_transactions()
    while not stopped.wait(1):
        careful.begin_transaction()
        careful.produce("payments", b"{}", b"customer-1")
        careful.commit_transaction()
    forgetful.abort_transaction()


def consume(client_config: dict[str, Any], group: str, topics: list[str], stopped: threading.Event) -> None:
    consumer = Consumer(
        client_config
        | {
            "group.id": group,
            "client.id": f"{group}-service",
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": 500,
        }
    )
    consumer.subscribe(topics)
    while not stopped.is_set():
        consumer.consume(40 if group != "search-indexer" else 9, 0.2)
        stopped.wait(0.1)
    consumer.close()


def shop_pipelines(_client: Any) -> list[Pipeline]:
    """What a console shows of a pipeline that keeps up with the shop, and of one that does not run."""
    now_ms = int(time.time() * 1000)
    ways = [
        ("topic orders", "flow paid_orders", "table paid_orders"),
        ("topic payments", "flow paid_orders", "table paid_orders"),
        ("table paid_orders", "flow revenue_by_hour", "table revenue_by_hour"),
        ("table paid_orders", "flow large_orders", "topic orders.large"),
        ("topic clicks", "flow sessions", "table sessions"),
        ("topic clicks", "flow clicks_rejected", "topic clicks.rejected"),
    ]
    edges = [
        (Node(*begin.split()), Node(*end.split()))
        for way in ways
        for begin, end in ((way[0], way[1]), (way[1], way[2]))
    ]
    flows = dict.fromkeys((way[1].split()[1] for way in ways), "RUNNING")
    return [
        Pipeline(
            "shop",
            "/srv/pipelines/shop",
            state="running",
            master="spark://spark:7077",
            rounds=1_204,
            started_ms=now_ms - 6_020_000,
            ended_ms=now_ms - 2_000,
            flows=tuple(flows.items()),
            tables=(
                Table("paid_orders", 1_840_221, 96_400_000, 212),
                Table("revenue_by_hour", 2_016, 410_000, 12),
                Table("sessions", 310_442, 28_100_000, 96),
            ),
            sources=(
                Source("paid_orders", "orders", 1_902_110, 12),
                Source("paid_orders", "payments", 1_841_007, 4),
                Source("sessions", "clicks", 9_120_334, 431),
                Source("clicks_rejected", "clicks", 9_120_334, 431),
            ),
            topics=("clicks.rejected",),
            edges=tuple(dict.fromkeys(edges)),
        ),
        Pipeline("reports", "/srv/pipelines/reports", "It has not been run yet.", topics=("orders",)),
    ]


def leave_behind(client_config: dict[str, Any], group: str, topic: str) -> None:
    """A group that has committed once, and has no members any more."""
    from confluent_kafka import TopicPartition

    consumer = Consumer(client_config | {"group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, number, 0) for number in range(12)], asynchronous=False)
    consumer.close()
