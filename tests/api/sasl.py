"""Clients that authenticate, on a broker without sockets."""

from typing import Any

from tests.api.harness import Client, Machine

from ottla.security.credentials import ITERATIONS, ScramMechanism, salted_password
from ottla.security.sasl.client import Credentials, client_exchange
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest

LISTENER = "SECURE"
PLAIN_LINE = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'user_alice="alice-secret" user_bob="bob-secret";'
)
PROPERTIES = {
    "listeners": "PLAINTEXT://127.0.0.1:9092,SECURE://127.0.0.1:9093",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.secure.plain.sasl.jaas.config": PLAIN_LINE,
}
ALICE = Credentials("alice", "alice-secret")
SALT = b"0123456789abcdefghijklmnop"


def secure_machine(**properties: str) -> Machine:
    own = {name.replace("__", "-").replace("_", "."): value for name, value in properties.items()}
    return Machine(properties={**PROPERTIES, **own})


def upsertion(
    user: str, password: str, mechanism: ScramMechanism, iterations: int = ITERATIONS
) -> ScramCredentialUpsertion:
    salted = salted_password(mechanism, password, SALT, max(iterations, 1))
    return ScramCredentialUpsertion(
        name=user, mechanism=mechanism, iterations=iterations, salt=SALT, salted_password=salted
    )


def add_user(machine: Machine, user: str, password: str) -> None:
    upsertions = [upsertion(user, password, mechanism) for mechanism in ScramMechanism]
    (result,) = machine.client().send(AlterUserScramCredentialsRequest(upsertions=upsertions)).results
    assert not result.error_code, result


def handshake(client: Client, mechanism: str, version: int = 1) -> Any:
    return client.ask(SaslHandshakeRequest(mechanism=mechanism), version)


def authenticate(
    client: Client, mechanism: str, own: Credentials, version: int = 2
) -> SaslAuthenticateResponse:
    """The last answer, which says how it went."""
    assert not handshake(client, mechanism).answer.error_code
    exchange = client_exchange(mechanism, own, bytes([client.number % 256] * 32))
    token: bytes | None = exchange.first()
    while token is not None:
        pending = client.ask(SaslAuthenticateRequest(auth_bytes=token), version)
        if pending.answer is None:
            client.machine.pass_time(100)
        answer: SaslAuthenticateResponse = pending.answer
        if answer.error_code:
            break
        token = exchange.on_reply(answer.auth_bytes)
    return answer
