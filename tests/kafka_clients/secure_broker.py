"""A broker in a process of its own with listeners that demand SASL, with and without TLS."""

import contextlib
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from tests.kafka_clients.harness import BrokerProcess
from tests.kafka_clients.wire_client import Wire
from tests.support.certificates import Authority
from tests.support.ports import free_ports

MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'user_alice="alice-secret" user_admin="admin-secret";'
)
SCRAM = {
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
}
PROTOCOLS = ["SASL_PLAINTEXT", "SASL_SSL"]
AUTHORITY = Authority()
WITHIN_S = 30.0


class SecureBroker(BrokerProcess):
    """Its usual listener is for the tests; the other has SASL."""

    def __init__(self, folder: Path, settings: dict[str, str]) -> None:
        super().__init__(folder, settings)
        self.secure_port, self.tls_port = free_ports(2)
        self.settings = {
            "listeners": f"PLAINTEXT://{self.address},SECURE://{self.secure},TLS://{self.secure_with_tls}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SASL_PLAINTEXT,TLS:SASL_SSL",
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            "listener.name.secure.plain.sasl.jaas.config": JAAS,
            "listener.name.tls.plain.sasl.jaas.config": JAAS,
            "group.initial.rebalance.delay.ms": "0",
            **AUTHORITY.properties(),
            **settings,
        }

    @property
    def secure(self) -> str:
        return f"127.0.0.1:{self.secure_port}"

    @property
    def secure_with_tls(self) -> str:
        return f"127.0.0.1:{self.tls_port}"

    def command(self) -> list[str]:
        command = super().command()
        at = command.index("--listen")
        return command[:at] + command[at + 2 :]

    def librdkafka(
        self, mechanism: str, password: str = "alice-secret", protocol: str = "SASL_PLAINTEXT"
    ) -> dict[str, Any]:
        tls = {"ssl.ca.pem": AUTHORITY.pem} if protocol == "SASL_SSL" else {}
        return {
            **tls,
            "bootstrap.servers": self.secure_with_tls if tls else self.secure,
            "security.protocol": protocol,
            "sasl.mechanism": mechanism,
            "sasl.username": "alice",
            "sasl.password": password,
            "log_level": 0,
        }

    def python(self, mechanism: str, protocol: str) -> dict[str, Any]:
        """As kafka-python and aiokafka want it."""
        return {
            "bootstrap_servers": self.secure_with_tls if protocol == "SASL_SSL" else self.secure,
            "security_protocol": protocol,
            "sasl_mechanism": mechanism,
            "sasl_plain_username": "alice",
            "sasl_plain_password": "alice-secret",
            "ssl_context": ssl.create_default_context(cadata=AUTHORITY.pem),
        }

    def wire(self) -> Wire:
        return Wire(self.secure_port)

    def add_alice(self) -> None:
        infos = [ScramCredentialInfo(mechanism, 4096) for mechanism in SCRAM.values()]
        alterations = [UserScramCredentialUpsertion("alice", info, b"alice-secret") for info in infos]
        self.admin.alter_user_scram_credentials(alterations)["alice"].result(WITHIN_S)


@contextlib.contextmanager
def secure_broker(folder: Path, **settings: str) -> Iterator[SecureBroker]:
    own = {name.replace("_", "."): value for name, value in settings.items()}
    broker = SecureBroker(folder, own)
    broker.start()
    try:
        broker.add_alice()
        yield broker
        assert broker.is_running, broker.log[-4000:]
        assert broker.stop() == 0
        assert broker.bugs() == []
    finally:
        broker.kill()
