"""A broker logs in to another with SASL, and then proves that it is a broker: in turn."""

import pytest

from ottla.base.config import ConfigError
from ottla.security.peer_handshake import MECHANISM, Acceptor, HandshakeError, Initiator
from ottla.security.peer_login import Login, login_of
from ottla.security.sasl.client import Credentials
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeResponse

SECRET = b"s" * 32
MODULES = "org.apache.kafka.common.security"
PLAIN = f'{MODULES}.plain.PlainLoginModule required username="broker" password="hush";'
JAAS_KEY = "plain.sasl.jaas.config"
KEY = "sasl.mechanism.inter.broker.protocol"


def proof() -> Initiator:
    return Initiator(SECRET, own_id=1, peer_id=2, nonce=b"n" * 32)


def test_the_login_comes_first_and_the_proof_when_it_has_succeeded() -> None:
    login = Login("PLAIN", Credentials("broker", "hush")).begin(b"x" * 32, proof())
    handshake, authenticate = login.first()
    assert (handshake.mechanism, authenticate.auth_bytes) == ("PLAIN", b"\0broker\0hush")
    assert login.on_answer(SaslHandshakeResponse(mechanisms=["PLAIN"])) == []
    handshake, opening = login.on_answer(SaslAuthenticateResponse(auth_bytes=b""))
    assert (handshake.mechanism, login.is_proven) == (MECHANISM, False)
    acceptor = Acceptor(SECRET, own_id=2, nonce=b"a" * 32)
    assert login.on_answer(SaslHandshakeResponse(mechanisms=[MECHANISM])) == []
    challenge = acceptor.challenge(opening.auth_bytes)
    (code,) = login.on_answer(SaslAuthenticateResponse(auth_bytes=challenge))
    assert login.is_proven
    assert acceptor.verify(code.auth_bytes) == 1


def test_a_refused_login_is_the_end_and_nothing_is_proved() -> None:
    login = Login("PLAIN", Credentials("broker", "hush")).begin(b"x" * 32, proof())
    login.first()
    login.on_answer(SaslHandshakeResponse(mechanisms=["PLAIN"]))
    with pytest.raises(HandshakeError, match="the login with PLAIN is refused, error 58"):
        login.on_answer(SaslAuthenticateResponse(error_code=58, auth_bytes=b""))
    assert not login.is_proven


def test_who_answers_scram_without_knowing_the_password_is_a_stranger() -> None:
    login = Login("SCRAM-SHA-256", Credentials("broker", "hush")).begin(b"x" * 32, proof())
    login.first()
    login.on_answer(SaslHandshakeResponse(mechanisms=["SCRAM-SHA-256"]))
    with pytest.raises(HandshakeError):
        login.on_answer(SaslAuthenticateResponse(auth_bytes=b"r=another,s=c2FsdA==,i=4096"))


def test_who_is_not_proved_to_be_a_broker_cannot_make_one_work_for_a_second() -> None:
    login = Login("SCRAM-SHA-512", Credentials("broker", "hush")).begin(b"x" * 32, proof())
    _, first = login.first()
    nonce = first.auth_bytes.decode().rpartition("r=")[2]
    login.on_answer(SaslHandshakeResponse(mechanisms=["SCRAM-SHA-512"]))
    with pytest.raises(HandshakeError, match="asks for 1000000 iterations"):
        login.on_answer(SaslAuthenticateResponse(auth_bytes=f"r={nonce}y,s=c2FsdA==,i=1000000".encode()))


def test_the_login_is_that_of_the_listeners_jaas_line() -> None:
    assert login_of({}, "BROKERS") is None, "the proof alone"
    login = login_of({KEY: "PLAIN", JAAS_KEY: PLAIN}, "BROKERS")
    assert login == Login("PLAIN", Credentials("broker", "hush"))
    assert "hush" not in repr(login)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({KEY: "GSSAPI"}, f"{KEY}: brokers log in with one of PLAIN, SCRAM-SHA-256"),
        ({KEY: "PLAIN"}, "listener.name.brokers.plain.sasl.jaas.config: it needs username and password"),
        (
            {KEY: "PLAIN", JAAS_KEY: f'{MODULES}.plain.PlainLoginModule required user_a="hush";'},
            "it needs username and password",
        ),
    ],
)
def test_a_mechanism_without_somebody_who_logs_in_is_refused(settings: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        login_of(settings, "BROKERS")
    assert said in str(refused.value)
    assert "hush" not in str(refused.value)
