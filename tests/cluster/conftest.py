"""One cluster for all tests here that leave it as they found it."""

from collections.abc import Iterator

import pytest
from tests.cluster.namespaces import Network
from tests.cluster.real import RealCluster
from tests.cluster.secured import cluster_for_faults
from tests.support.processes import running


@pytest.fixture(scope="session")
def shared_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    with running(cluster_for_faults(tmp_path_factory.mktemp("cluster"))) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared_cluster: RealCluster) -> Iterator[RealCluster]:
    """Three brokers, all of them there and in sync."""
    shared_cluster.restore()
    with shared_cluster.explained():
        yield shared_cluster


@pytest.fixture(scope="session")
def shared_networked(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[RealCluster, Network]]:
    network = Network(3)
    try:
        folder = tmp_path_factory.mktemp("networked")
        with running(cluster_for_faults(folder, network=network)) as cluster:
            yield cluster, network
    finally:
        network.remove()


@pytest.fixture
def networked(shared_networked: tuple[RealCluster, Network]) -> Iterator[tuple[RealCluster, Network]]:
    """Three brokers in a network that can be cut; skipped where the machine does not allow that."""
    cluster, _ = shared_networked
    cluster.wait_settled()
    with cluster.explained():
        yield shared_networked


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "/tests/cluster/" in str(item.path) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(300))
