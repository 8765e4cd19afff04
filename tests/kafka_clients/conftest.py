"""Fixtures: one broker for all tests of this folder, and a topic name of its own for each test."""

import itertools
import re
from collections.abc import Callable, Iterator

import pytest

# The adapters import kafka-python under a filter for the warnings it gives: they must be the first to do it.
import tests.kafka_clients.adapters  # noqa: F401
from tests.kafka_clients.harness import BrokerProcess

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    running = BrokerProcess(tmp_path_factory.mktemp("broker"))
    running.start()
    try:
        yield running
        assert running.is_alive(), running.log[-4000:]
        assert running.stop() == 0
        assert running.bugs() == []
    finally:
        running.kill()


@pytest.fixture
def start_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., BrokerProcess]]:
    """Brokers with settings of their own, killed after the test, whatever became of it."""
    started: list[BrokerProcess] = []

    def start(settings: dict[str, str] | None = None) -> BrokerProcess:
        one = BrokerProcess(tmp_path_factory.mktemp("broker"), settings)
        started.append(one)
        one.start()
        return one

    yield start
    for one in started:
        one.kill()
    assert [bug for one in started for bug in one.bugs()] == []


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses. The topic itself is not there yet."""
    return re.sub(r"[^a-zA-Z0-9-]", "-", request.node.name)[:80] + f"-{next(_numbers)}"
