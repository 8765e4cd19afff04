"""One cluster with metrics for all tests here."""

from collections.abc import Iterator

import pytest
from tests.metrics.stalling import StallingCluster
from tests.support.processes import running


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StallingCluster]:
    """Three brokers; a test leaves them as it found them."""
    settings = {"log.flush.interval.ms": "200", "ottla.metrics.lag.interval.ms": "500"}
    folder = tmp_path_factory.mktemp("watched")
    with running(StallingCluster(folder, settings=settings)) as made, made.explained():
        yield made
