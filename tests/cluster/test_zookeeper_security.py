"""Three brokers on a ZooKeeper that knows who asks: SASL, and nodes that are theirs alone."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from tests.cluster.load import Load
from tests.cluster.real import START_S, RealBroker, RealCluster
from tests.cluster.survival import flows_again, survive
from tests.cluster.zookeeper_security import USER, client_jaas, sasl_ensemble
from tests.support.ports import free_ports
from tests.support.processes import running
from tests.support.waiting import wait_for

from ottla.broker.zookeeper_config import JAAS_FILE

FAILOVER_S = 20.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    folder = tmp_path_factory.mktemp("sasl")
    settings = {JAAS_FILE: str(client_jaas(folder)), "zookeeper.set.acl": "true"}
    cluster = RealCluster(folder, settings=settings, zookeeper=sasl_ensemble(folder, is_enforced=False))
    with running(cluster), cluster.explained():
        yield cluster


def test_leaders_and_the_controller_fail_over_where_zookeeper_wants_sasl(cluster: RealCluster) -> None:
    def fault(topic: str, load: Load) -> None:
        for victim in (cluster.leader(topic), cluster.controller()):
            cluster.brokers[victim].kill()
            flows_again(load)
            cluster.brokers[victim].start()
            cluster.wait_settled()

    survive(cluster, "kill-sasl", fault, FAILOVER_S)


def test_brokers_authenticate_again_to_a_zookeeper_that_was_killed_and_is_back(cluster: RealCluster) -> None:
    cluster.zookeeper.kill(1)
    cluster.zookeeper.start()
    cluster.wait_settled()
    assert cluster.create_topic("after-zookeeper")
    cluster.wait_settled()


def test_of_a_running_cluster_others_cannot_read_the_secrets_and_cannot_change_anything(
    cluster: RealCluster,
) -> None:
    cluster.create_topic("guarded")
    anybody = KazooClient(f"{cluster.zookeeper.hosts}/ottla")
    anybody.start(START_S)
    try:
        tree = ["/"]
        for path in tree:
            try:
                tree += [f"{path.rstrip('/')}/{name}" for name in anybody.get_children(path)]
                content = anybody.get(path)[0]
            except NoAuthError:
                content = None
            is_secret = path.startswith(("/cluster/peer_secret", "/config/users", "/config/brokers"))
            assert (content is None) is is_secret, path
            with pytest.raises(NoAuthError):
                anybody.set(path, b"mine")
            with pytest.raises(NoAuthError):
                anybody.create(f"{path.rstrip('/')}/mine", b"mine")
            acls = anybody.get_acls(path)[0] if not is_secret else []
            assert all(acl.id.id in {USER, "anyone"} for acl in acls), path
        assert {"/controller", "/cluster/peer_secret", "/config/users", "/brokers/topics/guarded/state"} <= {
            *tree
        }
        with pytest.raises(NoAuthError):
            anybody.delete("/controller")
    finally:
        anybody.stop()
        anybody.close()


def test_a_broker_with_a_wrong_password_ends_with_one_line_that_names_the_remedy(
    cluster: RealCluster, tmp_path: Path
) -> None:
    settings = {**cluster.settings, JAAS_FILE: str(client_jaas(tmp_path, USER, "wrong"))}
    [port] = free_ports(1)
    stranger = RealBroker(9, port, tmp_path, f"{cluster.zookeeper.hosts}/ottla", settings)
    stranger.launch()
    try:
        wait_for(lambda: not stranger.is_running, START_S, "the broker ends")
    finally:
        stranger.kill()
    assert stranger.process.returncode == 1
    [line] = [line for line in stranger.log.splitlines() if "ZooKeeper" in line]
    remedy = f"correct the file that {JAAS_FILE} names"
    assert line.endswith(f"it does not accept this user and password; {remedy}")
    assert "Traceback" not in stranger.log
    assert "wrong" not in stranger.log
