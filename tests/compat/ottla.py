"""Ottla brokers in processes of their own, over folders that Apache Kafka wrote too."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.kafka_clients.harness import BrokerProcess

NODE_ID = "1"


@contextmanager
def running(broker: BrokerProcess) -> Iterator[BrokerProcess]:
    """Started, and gone in the end, without a bug in its log."""
    broker.start()
    try:
        yield broker
        assert broker.bugs() == []
    finally:
        broker.kill()


@contextmanager
def over_copy(data: Path, folder: Path) -> Iterator[BrokerProcess]:
    """A broker with the id of Apache Kafka's over a copy of its data directory."""
    broker = BrokerProcess(folder, {"broker.id": NODE_ID})
    shutil.copytree(data, broker.data)
    with running(broker):
        yield broker
