"""docs/migrating.md by taking over a folder: from Apache Kafka to Ottla, and the way back."""

import signal
from pathlib import Path

import pytest
from bench.servers import PeerError
from tests.compat import card, java_programs
from tests.compat.apache import Node
from tests.compat.card import Program
from tests.compat.ottla import NODE_ID
from tests.compat.rows.test_connect import read_all
from tests.compat.watched_topic import WatchedTopic, committed, produce
from tests.kafka_clients.harness import BrokerProcess
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


def test_there_and_back(tmp_path: Path) -> None:
    """Kafka stopped, Ottla started over its folder, then Kafka again: records and offsets go along."""
    try:
        node = Node({"group.initial.rebalance.delay.ms": "0"})
    except PeerError as error:
        pytest.skip(str(error))
    try:
        node.prepare()
        node.start()
        node.wait_ready()
        node.create_topic("orders")
        produce(node.bootstrap, "orders", VALUES[:100])
        read_all(node.bootstrap, "orders", "readers", 100)
        node.halt(signal.SIGTERM)

        broker = BrokerProcess(tmp_path, {"broker.id": NODE_ID, "group.initial.rebalance.delay.ms": "0"})
        broker.data = node.data
        broker.start()
        try:
            has(broker.bootstrap, 100)
            assert committed(broker.bootstrap, "readers", "orders") == 100
            produce(broker.bootstrap, "orders", VALUES[100:200])
            read_all(broker.bootstrap, "orders", "readers", 200)
            assert broker.stop() == 0
        finally:
            broker.kill()

        node.start()
        node.wait_ready()
        has(node.bootstrap, 200)
        assert committed(node.bootstrap, "readers", "orders") == 200
        produce(node.bootstrap, "orders", VALUES[200:])
        has(node.bootstrap, 300)
    finally:
        node.stop()
        node.close()
