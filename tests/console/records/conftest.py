"""A broker with topics that confluent-kafka filled."""

import uuid
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest
from confluent_kafka import Producer

from ottla import Broker
from ottla.client import Client
from ottla.client.properties import ClientProperties
from ottla.console.records.connection import connect, extents, partitions_of
from ottla.console.records.page import Source

Fill: TypeAlias = Callable[..., str]


@pytest.fixture
def open_client(broker: Broker) -> Callable[[], Client]:
    return lambda: connect(ClientProperties(broker.bootstrap_servers))


@pytest.fixture
def client(open_client: Callable[[], Client]) -> Iterator[Client]:
    with open_client() as made:
        yield made


@pytest.fixture
def fill(broker: Broker) -> Fill:
    """A new topic with these records: dictionaries of what `Producer.produce` takes."""

    def filled(records: list[dict[str, Any]], partitions: int = 1, **settings: Any) -> str:
        topic = f"t-{uuid.uuid4().hex[:8]}"
        broker.create_topic(topic, partitions)
        producer = Producer(broker.client_config | {"linger.ms": 5} | settings)
        for record in records:
            producer.produce(topic, **record)
            producer.poll(0)
        assert producer.flush(60) == 0
        return topic

    return filled


@pytest.fixture
def source(client: Client) -> Callable[..., Source]:
    def made(topic: str, *, read_committed: bool = True) -> Source:
        partitions = partitions_of(client, topic)
        return Source(
            client, topic, extents(client, topic, partitions, read_committed=read_committed), read_committed
        )

    return made
