"""One broker for the folder, and a topic of one's own for each test."""

from collections.abc import Iterator
from itertools import count

import pytest

from ottla import Broker
from ottla.client import Client, TopicPartition

_numbers = count()


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    with Broker({"auto.create.topics.enable": True, "group.initial.rebalance.delay.ms": 0}) as running:
        yield running


@pytest.fixture
def client(broker: Broker) -> Iterator[Client]:
    with Client(broker.bootstrap_servers, timeout_s=30) as made:
        yield made


@pytest.fixture
def place(client: Client) -> TopicPartition:
    """The first partition of a new topic with two."""
    name = f"topic-{next(_numbers)}"
    client.create_topics({name: 2})
    return TopicPartition(name, 0)
