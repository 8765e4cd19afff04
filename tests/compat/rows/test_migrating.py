"""docs/migrating.md by taking over a folder: from Apache Kafka to Ottla, and the way back."""

import signal
from pathlib import Path

from tests.compat import card, java_programs
from tests.compat.apache import Node
from tests.compat.card import Program
from tests.compat.ottla import NODE_ID
from tests.compat.watched_topic import WatchedTopic, committed, produce, read_all
from tests.kafka_clients.harness import BrokerProcess
from tests.support.processes import running
from tests.support.waiting import wait_for

PROGRAM = Program(
    "Apache Kafka, its folder to Ottla and back", java_programs.VERSION, card.TOOLS, "Maven: kafka_2.13"
)
WITHIN_S = 60.0
VALUES = [f"value {n}" for n in range(300)]


def has(bootstrap: str, count: int) -> None:
    with WatchedTopic(bootstrap, "orders") as seen:
        wait_for(lambda: len(seen.values) >= count, WITHIN_S, lambda: f"{count}, not {len(seen.values)}")
    assert seen.values == VALUES[:count]


def test_there_and_back(kafka: Node, tmp_path: Path) -> None:
    """Kafka stopped, Ottla started over its folder, then Kafka again: records and offsets go along."""
    kafka.create_topic("orders")
    produce(kafka.bootstrap, "orders", VALUES[:100])
    read_all(kafka.bootstrap, "orders", "readers", 100)
    kafka.halt(signal.SIGTERM)

    broker = BrokerProcess(tmp_path, {"broker.id": NODE_ID, "group.initial.rebalance.delay.ms": "0"})
    broker.data = kafka.data
    with running(broker):
        has(broker.bootstrap, 100)
        assert committed(broker.bootstrap, "readers", "orders") == 100
        produce(broker.bootstrap, "orders", VALUES[100:200])
        read_all(broker.bootstrap, "orders", "readers", 200)

    kafka.start()
    kafka.wait_ready()
    has(kafka.bootstrap, 200)
    assert committed(kafka.bootstrap, "readers", "orders") == 200
    produce(kafka.bootstrap, "orders", VALUES[200:])
    has(kafka.bootstrap, 300)
