"""Three brokers on a ZooKeeper that knows who asks: SASL, and nodes that are theirs alone. Brokers talk to
each other over TLS, and log in with SCRAM as a user that was there before them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from tests.cluster.load import Load
from tests.cluster.real import START_S, RealBroker, RealCluster
from tests.cluster.survival import flows_again, survive
from tests.cluster.zookeeper_security import USER, Authority, client_jaas, sasl_ensemble
from tests.support.ports import free_ports
from tests.support.processes import running
from tests.support.waiting import wait_for

from ottla.broker.zookeeper_config import JAAS_FILE
from ottla.cli.users.keepers import KeeperUsers
from ottla.security.credentials import ITERATIONS, ScramMechanism

FAILOVER_S = 20.0
MECHANISM, BROKER, BROKER_PASSWORD = ScramMechanism.SCRAM_SHA_512, "broker", "brokers-password"


class SecuredBroker(RealBroker):
    """One listener for clients, as the other tests have it, and one with TLS and SASL for brokers."""

    brokers_port: int

    def command(self) -> list[str]:
        command = super().command()
        at = command.index("--listen")
        listeners = f"listeners=PLAINTEXT://{self.address},BROKERS://{self.host}:{self.brokers_port}"
        return [*command[:at], *command[at + 2 :], "--set", listeners]


class SecuredCluster(RealCluster):
    """Brokers log in to each other as a user that is in ZooKeeper before the first of them starts."""

    def add(self, port: int = 0) -> RealBroker:
        plain = super().add(port)
        broker = SecuredBroker(plain.id, plain.port, plain.folder, plain.zookeeper, plain.settings)
        [broker.brokers_port] = free_ports(1)
        self.brokers[broker.id] = broker
        return broker

    def start(self) -> None:
        self.zookeeper.start()
        keeper = self.settings | {"zookeeper.connect": f"{self.zookeeper.hosts}/ottla"}
        KeeperUsers(keeper).add(BROKER, BROKER_PASSWORD, {MECHANISM: ITERATIONS})
        for broker in self.brokers.values():
            broker.launch()
        for broker in self.brokers.values():
            broker.wait_ready()
        self.wait_settled()


def secured(folder: Path) -> dict[str, str]:
    authority = Authority(folder)
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    return {
        JAAS_FILE: str(client_jaas(folder)),
        "zookeeper.set.acl": "true",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:SASL_SSL",
        "inter.broker.listener.name": "BROKERS",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue("broker")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.path),
        "sasl.enabled.mechanisms": MECHANISM.title,
        "sasl.mechanism.inter.broker.protocol": MECHANISM.title,
        f"listener.name.brokers.{MECHANISM.title.lower()}.sasl.jaas.config": (
            f'{module} required username="{BROKER}" password="{BROKER_PASSWORD}";'
        ),
    }


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    folder = tmp_path_factory.mktemp("sasl")
    cluster = SecuredCluster(folder, settings=secured(folder), zookeeper=sasl_ensemble(folder))
    try:
        with cluster.explained(), running(cluster):
            yield cluster
    finally:
        cluster.stop()


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


def test_of_a_running_cluster_others_cannot_read_the_secrets_and_cannot_change_anything_cve_2023_44981(
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
    settings = {JAAS_FILE: str(client_jaas(tmp_path, USER, "wrong"))}
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
