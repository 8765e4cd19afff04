"""One Spark session and one broker for all tests of this folder; topics, records and queries to use with
them.

Spark is started once: a session costs seconds. Tests that need a driver or a broker of their own to kill
run it in a process (see `driver.py`, and `BrokerProcess`).
"""

import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from bench import apache
from bench.servers import PeerError
from tests.compat import transactional
from tests.spark.harness import (
    IS_LONG,
    JAVA_MIN,
    Topic,
    close_clients,
    close_shared_session,
    java_version,
    new_topic,
    shared_session,
)

from ottla.testing.embedded import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEST_S = 600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A Spark that starts on a busy machine takes its time, and an alarm in the middle of a call to the JVM
    would spoil the session for all tests after it. PySpark's own deprecations are not ours to fix."""
    for item in items:
        if "/spark/" in str(item.path):
            item.add_marker(pytest.mark.timeout(TEST_S))
            item.add_marker(pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"))
            item.add_marker(pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark"))
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning:py4j"))
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    if shutil.which("java") is None or java_version() < JAVA_MIN:
        pytest.skip(f"Spark needs Java {JAVA_MIN} or newer, and there is none on the path")
    yield shared_session()
    close_shared_session()


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    with Broker({"log.retention.check.interval.ms": 200, "log.cleaner.backoff.ms": 50}) as running:
        yield running
        close_clients()


BROKERS = [transactional.APACHE, transactional.OTTLA]
if not IS_LONG:
    BROKERS = BROKERS[1:]


@pytest.fixture(scope="session", params=BROKERS, name="transactional")
def transactional_broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[transactional.Server]:
    """A broker with transactions, which aborts soon what has timed out."""
    with serving(request.param, tmp_path_factory.mktemp("transactional")) as server:
        yield server


@pytest.fixture(params=BROKERS)
def mortal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[transactional.Server]:
    """The same for one test, to be killed."""
    with serving(request.param, tmp_path / "mortal") as server:
        yield server


@contextmanager
def serving(kind: str, folder: Path) -> Iterator[transactional.Server]:
    if kind == transactional.APACHE:
        try:
            apache.fetch()
        except PeerError as error:
            pytest.skip(f"needs Apache Kafka: {error}")
    settings = {
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "2",
        "transaction.state.log.num.partitions": "2",
    }
    with transactional.serving(kind, folder, settings) as server:
        yield server
        close_clients()


@pytest.fixture
def target(transactional: transactional.Server) -> Topic:
    return new_topic(transactional.bootstrap, 3)


@pytest.fixture
def topic(broker: Broker) -> Callable[..., Topic]:
    """Make a topic with a name of its own."""

    def make(partitions: int = 1, prefix: str = "t", **config: Any) -> Topic:
        settings = {name.replace("_", "."): value for name, value in config.items()}
        settings.setdefault("retention.ms", -1)  # many records here are of 1970
        name = broker.create_topic(f"{prefix}-{uuid.uuid4().hex[:8]}", partitions, settings)
        return Topic(broker.bootstrap_servers, name)

    return make
