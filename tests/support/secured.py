"""Brokers with a listener for every security protocol, and a user alice for every mechanism."""

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support import tokens
from tests.support.certificates import Authority
from tests.support.ports import free_ports

from ottla import Broker
from ottla.client import Client

HOST = "127.0.0.1"
SECRET = "alice-secret"
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
PACKAGE = "org.apache.kafka.common.security"
SESSION_MS = 60_000
AUDIENCE = "ottla"
PROTOCOLS = {
    "PLAINTEXT": "PLAINTEXT",
    "TLS": "SSL",
    "MUTUAL": "SSL",
    "SASL": "SASL_PLAINTEXT",
    "BOTH": "SASL_SSL",
    "SHORT": "SASL_PLAINTEXT",
}
JAAS = {
    "plain": f'{PACKAGE}.plain.PlainLoginModule required user_alice="{SECRET}";',
    "scram-sha-256": f"{PACKAGE}.scram.ScramLoginModule required;",
    "scram-sha-512": f"{PACKAGE}.scram.ScramLoginModule required;",
}


class Secured(ABC):
    """`addresses` by listener. The authority that signed the broker's certificate is for tests to use."""

    mechanisms: tuple[str, ...]

    def __init__(self, folder: Path) -> None:
        self.authority = Authority()
        self.folder = folder
        self.ca = folder / "ca.pem"
        self.ca.write_text(self.authority.pem)
        ports = free_ports(len(PROTOCOLS))
        self.addresses = {name: f"{HOST}:{port}" for name, port in zip(PROTOCOLS, ports, strict=True)}

    def settings(self) -> dict[str, str]:
        """Of the broker, but for its own certificate and the listeners of a KRaft controller."""
        settings = {
            "listeners": ",".join(f"{name}://{address}" for name, address in self.addresses.items()),
            "listener.security.protocol.map": ",".join(f"{name}:{to}" for name, to in PROTOCOLS.items()),
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.short.connections.max.reauth.ms": str(SESSION_MS),
            "inter.broker.listener.name": "PLAINTEXT",
            "group.initial.rebalance.delay.ms": "0",
        }
        for listener in ("sasl", "both", "short"):
            settings[f"listener.name.{listener}.sasl.enabled.mechanisms"] = ",".join(self.mechanisms)
            for mechanism, line in self.jaas().items():
                settings[f"listener.name.{listener}.{mechanism}.sasl.jaas.config"] = line
        return settings

    def jaas(self) -> dict[str, str]:
        return JAAS

    @abstractmethod
    def token(self) -> str:
        """One that OAUTHBEARER accepts here."""

    def credentials(self, mechanism: str, password: str = SECRET) -> dict[str, str]:
        if mechanism == "OAUTHBEARER":
            return {"sasl.mechanism": mechanism, "sasl.oauthbearer.token": self.token()}
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        line = f'{PACKAGE}.{module} required username="alice" password="{password}";'
        return {"sasl.mechanism": mechanism, "sasl.jaas.config": line}

    def over(self, protocol: str, mechanism: str = "") -> dict[str, str]:
        """The properties of a client."""
        properties = {"security.protocol": protocol}
        if protocol.endswith("SSL"):
            properties |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.ca)}
        return properties | (self.credentials(mechanism) if mechanism else {})

    def client_file(self, name: str, protocol: str, mechanism: str = "") -> str:
        path = self.folder / f"{name}.properties"
        listener = {"SASL_SSL": "BOTH", "SASL_PLAINTEXT": "SASL", "SSL": "TLS"}[protocol]
        properties = {"bootstrap.servers": self.addresses[listener], **self.over(protocol, mechanism)}
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        return str(path)


class SecuredOttla(Secured):
    mechanisms = ("PLAIN", *SCRAM, "OAUTHBEARER")

    def token(self) -> str:
        return tokens.token(now_ms=time.time_ns() // 1_000_000, aud=AUDIENCE)

    def start(self) -> Broker:
        keys = self.folder / "keys.json"
        keys.write_text(json.dumps(tokens.jwks(tokens.rsa_key())))
        bearer = {
            "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
            "sasl.oauthbearer.expected.audience": AUDIENCE,
        }
        return Broker(self.settings() | self.authority.properties() | bearer)

    def add_users(self) -> None:
        add_scram_users(self.addresses["PLAINTEXT"])


def add_scram_users(bootstrap: str) -> None:
    from confluent_kafka.admin import (
        AdminClient,
        ScramCredentialInfo,
        ScramMechanism,
        UserScramCredentialUpsertion,
    )

    admin = AdminClient({"bootstrap.servers": bootstrap})
    for name in SCRAM:  # a user is altered once in a request
        mechanism = getattr(ScramMechanism, name.replace("-", "_"))
        made = UserScramCredentialUpsertion("alice", ScramCredentialInfo(mechanism, 4096), SECRET.encode())
        admin.alter_user_scram_credentials([made])["alice"].result(30)


@contextmanager
def secured_ottla(folder: Path) -> Iterator[SecuredOttla]:
    server = SecuredOttla(folder)
    with server.start():
        server.add_users()
        yield server


def client_of(server: Secured, listener: str, mechanism: str = "", **more: str) -> Client:
    return Client(server.addresses[listener], security=server.over(PROTOCOLS[listener], mechanism) | more)


def admin_settings(servers: str) -> dict[str, str | int]:
    """How confluent-kafka comes in as `admin`, with PLAIN and without TLS."""
    return {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "admin",
        "sasl.password": "admin-secret",
        "log_level": 0,
    }
