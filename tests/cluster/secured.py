"""A cluster whose brokers log in to each other with SCRAM over TLS, and to ZooKeeper with SASL.

Its nodes in ZooKeeper are its own, and an authorizer decides what users may do. With `OTTLA_SECURE=1` tests
of faults run on such a cluster (`make faults SECURE=1`). Their clients use the plaintext listener, where they
are super users.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from tests.cluster.namespaces import Network
from tests.cluster.real import RealBroker, RealCluster
from tests.cluster.zookeeper_security import client_jaas, sasl_ensemble
from tests.support.certificates import HERE, PEM, Authority
from tests.support.ports import free_ports

from ottla.broker.zookeeper_config import JAAS_FILE
from ottla.cli.users.keepers import KeeperUsers
from ottla.security.credentials import ITERATIONS, ScramMechanism

IS_SECURE = os.environ.get("OTTLA_SECURE") == "1"
BROKER, BROKER_PASSWORD = "broker", "brokers-password"
MECHANISM = ScramMechanism.SCRAM_SHA_512
BROKERS = 3


class SecuredBroker(RealBroker):
    """One listener for clients, as the other tests have it, and one with TLS and SASL for brokers."""

    def __init__(self, id: int, port: int, folder: Path, zookeeper: str, settings: Mapping[str, str]) -> None:
        super().__init__(id, port, folder, zookeeper, settings)
        [self.brokers_port] = free_ports(1)

    def command(self) -> list[str]:
        command = super().command()
        at = command.index("--listen")
        listeners = f"listeners=PLAINTEXT://{self.address},BROKERS://{self.host}:{self.brokers_port}"
        return [*command[:at], *command[at + 2 :], "--set", listeners]


class SecuredCluster(RealCluster):
    """Brokers log in to each other as a user that is in ZooKeeper before the first of them starts."""

    broker_type = SecuredBroker

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, str] | None = None,
        network: Network | None = None,
        tick_ms: int = 500,
    ) -> None:
        self.authority = Authority()
        hosts = [network.address(number) for number in range(1, BROKERS + 1)] if network else []
        security = self._security(folder, (*HERE, *hosts))
        zookeeper = sasl_ensemble(folder, tick_ms=tick_ms, host=network.keeper if network else "127.0.0.1")
        super().__init__(
            folder, BROKERS, settings=security | dict(settings or {}), network=network, zookeeper=zookeeper
        )

    def start(self) -> None:
        self.zookeeper.start()
        keeper = self.settings | {"zookeeper.connect": f"{self.zookeeper.hosts}/ottla"}
        KeeperUsers(keeper).add(BROKER, BROKER_PASSWORD, {MECHANISM: ITERATIONS})
        self.start_brokers()

    def _security(self, folder: Path, hosts: tuple[str, ...]) -> dict[str, str]:
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        trusted = folder / "authority.pem"
        trusted.write_text(self.authority.pem)
        return PEM | {
            JAAS_FILE: str(client_jaas(folder)),
            "zookeeper.set.acl": "true",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:SASL_SSL",
            "inter.broker.listener.name": "BROKERS",
            "ssl.keystore.location": self.authority.issue("broker", hosts).write(folder / "broker.pem"),
            "ssl.truststore.location": str(trusted),
            "sasl.enabled.mechanisms": MECHANISM.title,
            "sasl.mechanism.inter.broker.protocol": MECHANISM.title,
            f"listener.name.brokers.{MECHANISM.title.lower()}.sasl.jaas.config": (
                f'{module} required username="{BROKER}" password="{BROKER_PASSWORD}";'
            ),
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": f"User:ANONYMOUS;User:{BROKER}",
        }


def cluster_for_faults(
    folder: Path,
    settings: Mapping[str, str] | None = None,
    network: Network | None = None,
    tick_ms: int = 500,
) -> RealCluster:
    """Secured or not, as the environment says."""
    cluster_type = SecuredCluster if IS_SECURE else RealCluster
    return cluster_type(folder, settings=settings, network=network, tick_ms=tick_ms)
