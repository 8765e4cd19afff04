"""What the brokers of a real cluster say of their health over HTTP."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.real import RealCluster
from tests.cluster.watched import WatchedBroker
from tests.support.ports import free_ports
from tests.support.waiting import wait_for

WITHIN_S = 60.0


@pytest.fixture
def broker(cluster: RealCluster, tmp_path: Path) -> Iterator[WatchedBroker]:
    """One on the ZooKeeper of the others, in a cluster of its own."""
    [port] = free_ports(1)
    keeper = f"{cluster.zookeeper.hosts}/{tmp_path.name}"
    broker = WatchedBroker(1, port, tmp_path, keeper, cluster.settings)
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()


def test_the_absence_of_zookeeper_alone_is_told_and_takes_no_broker_out_of_service(
    cluster: RealCluster, broker: WatchedBroker
) -> None:
    assert broker.ready().json == {"ready": True, "reasons": [], "keeper": "connected"}
    cluster.zookeeper.pause()
    try:
        wait_for(lambda: broker.ready().json["keeper"] == "away", WITHIN_S, "it notices")
        assert broker.ready().status == 200
        assert broker.ready().json["reasons"] == []
    finally:
        cluster.zookeeper.resume()
    wait_for(lambda: broker.ready().json["keeper"] == "connected", WITHIN_S, "it notices")
    wait_for(
        lambda: broker.ready().status == 200, WITHIN_S, "it is registered again, if its session was over"
    )
    cluster.wait_settled()
