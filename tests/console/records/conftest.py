"""A broker with topics that confluent-kafka filled."""

import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import pytest
from confluent_kafka import Producer
from tests.support.waiting import WITHIN_S

from ottla import Broker
from ottla.client import Client
from ottla.client.properties import ClientProperties
from ottla.console.records.connection import connect, extents, partitions_of
from ottla.console.records.page import Source
from ottla.console.records.search import _Work

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


def wait_half_way(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Searches wait when half of the offsets are done, until this is set: however fast or slow a machine is,
    they are stopped in the middle."""
    go_on = threading.Event()
    look_through = _Work._look_through

    def gated(work: _Work, client: Client, partition: Any) -> None:
        if work._counts.offsets * 2 >= work._total:
            go_on.wait(WITHIN_S)
        look_through(work, client, partition)

    monkeypatch.setattr(_Work, "_look_through", gated)
    return go_on


@pytest.fixture
def half_way(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """They take small steps, so that also a short search has a middle."""
    monkeypatch.setattr("ottla.console.records.search.SPAN_MAX", 500)
    go_on = wait_half_way(monkeypatch)
    yield go_on
    go_on.set()


@pytest.fixture
def source(client: Client) -> Callable[..., Source]:
    def made(topic: str, *, read_committed: bool = True) -> Source:
        partitions = partitions_of(client, topic)
        return Source(
            client, topic, extents(client, topic, partitions, read_committed=read_committed), read_committed
        )

    return made
