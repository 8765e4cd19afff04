"""Apache Kafka with a listener for every security protocol and users for every mechanism."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import apache
from bench.servers import HOST, PeerError, clean_environment
from tests.compat.apache import QUICK_JVM, Node
from tests.support.certificates import Authority
from tests.support.ports import free_ports

SECRET, PASSWORD = "alice-secret", "store-secret"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_PACKAGE = "org.apache.kafka.common.security"
SESSION_MS = 5_000


class SecuredKafka(Node):
    """`addresses` by listener; its authority and its user alice are for tests to use."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority()
        self.folder_of_stores = folder
        names = ("TLS", "MUTUAL", "SASL", "BOTH", "SHORT")
        self.addresses = {
            name: f"{HOST}:{port}" for name, port in zip(names, free_ports(len(names)), strict=True)
        }
        self.ca = folder / "ca.pem"
        self.ca.write_text(self.authority.pem)
        super().__init__(self._security())

    def _security(self) -> dict[str, str]:
        folder = self.folder_of_stores
        keystore, truststore = folder / "broker.p12", folder / "trusted.p12"
        keystore.write_bytes(self.authority.issue("broker").pkcs12(PASSWORD))
        truststore.write_bytes(self.authority.pkcs12(PASSWORD))
        scram = f"{_PACKAGE}.scram.ScramLoginModule required;"
        plain = f'{_PACKAGE}.plain.PlainLoginModule required user_alice="{SECRET}";'
        bearer = (
            f"{_PACKAGE}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=broker;"
        )
        settings = {
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,TLS:SSL,MUTUAL:SSL,"
            "SASL:SASL_PLAINTEXT,BOTH:SASL_SSL,SHORT:SASL_PLAINTEXT",
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(keystore),
            "ssl.keystore.password": PASSWORD,
            "ssl.key.password": PASSWORD,
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.location": str(truststore),
            "ssl.truststore.password": PASSWORD,
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.short.connections.max.reauth.ms": str(SESSION_MS),
            "inter.broker.listener.name": "PLAINTEXT",
            "group.initial.rebalance.delay.ms": "0",
        }
        for listener in ("sasl", "both", "short"):
            prefix = f"listener.name.{listener}"
            settings |= {
                f"{prefix}.sasl.enabled.mechanisms": ",".join(MECHANISMS),
                f"{prefix}.plain.sasl.jaas.config": plain,
                f"{prefix}.scram-sha-256.sasl.jaas.config": scram,
                f"{prefix}.scram-sha-512.sasl.jaas.config": scram,
                f"{prefix}.oauthbearer.sasl.jaas.config": bearer,
            }
        return settings

    def _write_properties(self, folder: str) -> str:
        path = super()._write_properties(folder)
        lines = Path(path).read_text().splitlines()
        more = "".join(f",{name}://{address}" for name, address in self.addresses.items())
        Path(path).write_text(
            "".join(f"{line}{more if line.startswith('listeners=') else ''}\n" for line in lines)
        )
        return path

    def add_users(self) -> None:
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            command = apache.java(
                "kafka.admin.ConfigCommand"
                if _has("kafka/admin/ConfigCommand.class")
                else "org.apache.kafka.tools.ConfigCommand",
                "--bootstrap-server", self.bootstrap, "--alter", "--entity-type", "users",
                "--entity-name", "alice", "--add-config", f"{mechanism}=[password={SECRET}]",
            )  # fmt: skip
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=60, env=clean_environment() | QUICK_JVM
            )
            if done.returncode:
                raise PeerError(f"kafka-configs: {done.stderr[-300:]}")

    def credentials(self, mechanism: str) -> dict[str, str]:
        if mechanism == "OAUTHBEARER":
            return {"sasl.mechanism": mechanism, "sasl.oauthbearer.token": unsecured_token()}
        return {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas(mechanism)}

    def tls(self) -> dict[str, str]:
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.ca)}


def jaas(mechanism: str, password: str = SECRET) -> str:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    return f'{_PACKAGE}.{module} required username="alice" password="{password}";'


def unsecured_token(lasts_s: float = 3600) -> str:
    """A token without a signature, which Apache Kafka accepts unless told to check them."""
    import base64
    import json
    import time

    now_s = time.time()
    parts = ({"alg": "none"}, {"sub": "alice", "iat": now_s, "exp": now_s + lasts_s})
    encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
    return ".".join([*encoded, ""])


def _has(entry: str) -> bool:
    import zipfile

    jars = [name for name in os.listdir(apache._LIBS) if name.startswith("kafka_2.13-")]
    return any(entry in zipfile.ZipFile(os.path.join(apache._LIBS, name)).namelist() for name in jars)


@contextmanager
def secured_kafka(folder: Path) -> Iterator[SecuredKafka]:
    """PeerError where Apache Kafka cannot be had."""
    node = SecuredKafka(folder)
    try:
        apache.fetch()
        node.prepare()
        node.start()
        node.wait_ready()
        node.add_users()
        yield node
    finally:
        node.stop()
        node.close()
