"""One broker for all tests that leave it as they found it, and producers that are gone in the end."""

import itertools
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
from bench import apache
from bench.servers import PeerError
from tests.transactions import jvm, servers
from tests.transactions.producers import CLIENTS, Java, JavaProducers, TransactionalProducer
from tests.transactions.reading import Offsets
from tests.transactions.servers import Brokers

R = TypeVar("R")
NewProducer = Callable[..., TransactionalProducer]
_numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test that needs Apache Kafka waits for its jars."""
    for item in items:
        if "/tests/transactions/" in str(item.path) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(apache.FETCH_S + 300))


@pytest.fixture(scope="session")
def server_jars() -> None:
    """Ottla needs none."""
    if servers.CHOSEN == "apache":
        _skip_unless(apache.fetch)


@pytest.fixture(scope="session")
def java_producer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    _skip_unless(apache.fetch)
    folder = tmp_path_factory.mktemp("classes")
    Java.process = JavaProducers(_skip_unless(lambda: jvm.compile_program("Producers", folder)))
    yield
    Java.process.stop()


@pytest.fixture(scope="session")
def shared_brokers(server_jars: None) -> Iterator[Brokers]:
    with servers.serving() as brokers:
        yield brokers


@pytest.fixture
def brokers(shared_brokers: Brokers) -> Brokers:
    return shared_brokers


@pytest.fixture
def offsets(brokers: Brokers) -> Iterator[Offsets]:
    """With a group of its own."""
    asked = Offsets(brokers.bootstrap, f"group-{next(_numbers)}")
    yield asked
    asked.close()


@pytest.fixture
def topic(brokers: Brokers) -> str:
    return brokers.create_topic(f"topic-{next(_numbers)}")


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest) -> str:
    """The name of a client library."""
    name: str = request.param
    if name == "java":
        request.getfixturevalue("java_producer")
    return name


@pytest.fixture
def new_producer() -> Iterator[NewProducer]:
    """Makes producers, and closes them in the end whatever became of the test."""
    made: list[TransactionalProducer] = []

    def make(
        client: str,
        brokers: Brokers | str,
        transactional_id: str,
        timeout_ms: int = 60_000,
        **settings: object,
    ) -> TransactionalProducer:
        bootstrap = brokers if isinstance(brokers, str) else brokers.bootstrap
        made.append(CLIENTS[client](bootstrap, transactional_id, timeout_ms, **settings))
        return made[-1]

    yield make
    for producer in made:
        producer.close()


def _skip_unless(attempt: Callable[[], R]) -> R:
    try:
        return attempt()
    except PeerError as error:
        pytest.skip(f"needs Apache Kafka: {error}")
