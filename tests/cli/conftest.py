"""Commands are run in the process (`commands`); `ottla start` and terminals need a real one."""

import contextlib
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from tests.cli import commands
from tests.cli.commands import Run

from ottla import Broker


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Nothing here takes long; what hangs is told so soon."""
    for item in items:
        if "/tests/cli/" in str(item.path) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(120))


run, ottla = commands.run, commands.ottla


# -- groups --------------------

WAIT_S = 20.0


@pytest.fixture(scope="session")
def quick_broker() -> Iterator[Broker]:
    """A broker whose classic groups do not wait for more members at first, and whose others beat fast."""
    config = {
        "group.initial.rebalance.delay.ms": "0",
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.heartbeat.interval.ms": "200",
    }
    with Broker(config=config) as broker:
        yield broker


@pytest.fixture
def quick(run: Run, quick_broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`ottla` with that broker to talk to."""
    monkeypatch.setenv("OTTLA_BOOTSTRAP", quick_broker.bootstrap_servers)
    return run


@pytest.fixture
def fresh() -> str:
    """A name nobody has used."""
    return f"n{uuid.uuid4().hex[:10]}"


@pytest.fixture
def topic(quick_broker: Broker, fresh: str) -> Iterator[str]:
    """Two partitions with five records each, a second apart, the last of them now."""
    name = quick_broker.create_topic(f"{fresh}-topic", partitions=2)
    producer = Producer({"bootstrap.servers": quick_broker.bootstrap_servers})
    now_ms = int(time.time() * 1000)
    for number in range(10):
        age_ms = (4 - number // 2) * 1000
        producer.produce(name, f"r{number // 2}", partition=number % 2, timestamp=now_ms - age_ms)
    assert producer.flush(WAIT_S) == 0
    yield name
    with contextlib.suppress(KafkaException):  # the test may have deleted it
        quick_broker.delete_topic(name)


class Group:
    """Live members of groups, for as long as a test takes."""

    def __init__(self, broker: Broker) -> None:
        self.bootstrap = broker.bootstrap_servers
        self.members: list[Consumer] = []

    def join(
        self,
        group: str,
        topic: str,
        protocol: str = "classic",
        on_assign: Callable[[Consumer, list[TopicPartition]], None] = lambda _member, _given: None,
        **settings: str,
    ) -> Consumer:
        """One more member. It stays alive without being polled."""
        settings = {name.replace("_", "."): value for name, value in settings.items()}
        own: dict[str, Any] = {"group.id": group, "group.protocol": protocol, "enable.auto.commit": False}
        if protocol == "classic":
            own["heartbeat.interval.ms"] = 200
        member = Consumer({"bootstrap.servers": self.bootstrap, **own, **settings})
        self.members.append(member)
        member.subscribe([topic], on_assign=on_assign)
        self.wait(lambda: bool(member.assignment()))
        return member

    def wait(self, is_reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_S
        while not is_reached():
            assert time.monotonic() < deadline, "the members did not get there in time"
            for member in self.members:
                member.poll(0.02)

    def commit(self, group: str, topic: str, *offsets: int, metadata: str = "") -> None:
        """As a program does that keeps its offsets in a group without joining it."""
        client = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group})
        places = [TopicPartition(topic, at, offset, metadata) for at, offset in enumerate(offsets)]
        for answered in client.commit(offsets=places, asynchronous=False):
            assert answered.error is None
        client.close()

    def leave(self) -> None:
        while self.members:
            self.members.pop().close()


@pytest.fixture
def group(quick_broker: Broker) -> Iterator[Group]:
    members = Group(quick_broker)
    yield members
    members.leave()
