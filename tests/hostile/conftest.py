"""A broker to be attacked, and the checks that hold whatever was done to it."""

from collections.abc import Callable, Iterator

import pytest
from tests.hostile.healthy import Healthy
from tests.kafka_clients.harness import BrokerProcess


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    running = BrokerProcess(tmp_path_factory.mktemp("attacked"))
    running.start()
    try:
        yield running
        assert running.is_alive(), running.log[-4000:]
        assert running.stop() == 0
    finally:
        running.kill()


@pytest.fixture(autouse=True)
def no_bugs(request: pytest.FixtureRequest) -> Iterator[None]:
    """Name the test that made the broker fail, not the last one."""
    if "broker" not in request.fixturenames:
        yield
        return
    running: BrokerProcess = request.getfixturevalue("broker")
    before = len(running.bugs())
    yield
    assert running.is_alive(), running.log[-4000:]
    assert running.bugs()[before:] == []


@pytest.fixture
def healthy(broker: BrokerProcess) -> Iterator[Healthy]:
    with Healthy(broker) as client:
        yield client


@pytest.fixture
def start_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., BrokerProcess]]:
    """Brokers with settings of their own, killed after the test, whatever became of it."""
    started: list[BrokerProcess] = []

    def start(settings: dict[str, str] | None = None, log_level: str = "info") -> BrokerProcess:
        one = BrokerProcess(tmp_path_factory.mktemp("broker"), settings, log_level)
        started.append(one)
        one.start()
        return one

    yield start
    for one in started:
        one.kill()
    assert [bug for one in started for bug in one.bugs()] == []
