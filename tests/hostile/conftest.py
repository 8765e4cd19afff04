"""A broker to be attacked, and the checks that hold whatever was done to it."""

from collections.abc import Callable, Iterator

import pytest
from tests.hostile.healthy import Healthy
from tests.kafka_clients.harness import BrokerProcess, serving, starter


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with serving(tmp_path_factory.mktemp("attacked")) as running:
        yield running


@pytest.fixture(autouse=True)
def no_bugs(request: pytest.FixtureRequest) -> Iterator[None]:
    """Name the test that made the broker fail, not the last one."""
    if "broker" not in request.fixturenames:
        yield
        return
    running: BrokerProcess = request.getfixturevalue("broker")
    before = len(running.bugs())
    yield
    assert running.is_running, running.log[-4000:]
    assert running.bugs()[before:] == []


@pytest.fixture
def healthy(broker: BrokerProcess) -> Iterator[Healthy]:
    with Healthy(broker) as client:
        yield client


@pytest.fixture
def start_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., BrokerProcess]]:
    with starter(tmp_path_factory.mktemp) as start:
        yield start
