"""The client's side of SASL."""

import pytest

from ottla.security.credentials import ScramMechanism
from ottla.security.sasl.client import Credentials, ScramClient, client_exchange
from ottla.security.sasl.exchange import AuthenticationError

NONCE = bytes(range(32))
# RFC 7677, section 3
USER, PASSWORD = "user", "pencil"
CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def scram(password: str = PASSWORD) -> ScramClient:
    return ScramClient(ScramMechanism.SCRAM_SHA_256, Credentials(USER, password), CLIENT_NONCE)


def test_scram_sha_256_is_that_of_rfc_7677() -> None:
    client = scram()
    assert client.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert client.on_reply(SERVER_FIRST) == CLIENT_FINAL
    assert client.on_reply(SERVER_FINAL) is None


def test_a_server_that_does_not_know_the_password_is_recognised() -> None:
    client = scram("another")
    client.on_reply(SERVER_FIRST)
    with pytest.raises(AuthenticationError, match="signature is wrong"):
        client.on_reply(SERVER_FINAL)


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (SERVER_FIRST.replace(b"r=rOpr", b"r=xOpr"), "nonce"),
        (b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "nonce"),
        (SERVER_FIRST.replace(b"i=4096", b"i=1"), "1 iterations"),
        (SERVER_FIRST.replace(b"i=4096", b"i=999999999"), "999999999 iterations"),
        (b"e=other-error", "cannot be read"),
        (b"", "cannot be read"),
        (b"\xff", "UTF-8"),
    ],
)
def test_a_servers_first_message_that_is_not_right_ends_the_attempt(reply: bytes, problem: str) -> None:
    with pytest.raises(AuthenticationError, match=problem):
        scram().on_reply(reply)


def test_an_error_instead_of_the_signature_ends_the_attempt() -> None:
    client = scram()
    client.on_reply(SERVER_FIRST)
    with pytest.raises(AuthenticationError):
        client.on_reply(b"e=invalid-proof")


def test_names_with_commas_and_equal_signs_are_escaped() -> None:
    first = client_exchange("SCRAM-SHA-512", Credentials("a=b,c", "x"), NONCE).first()
    assert first.startswith(b"n,,n=a=3Db=2Cc,r=")


def test_plain_is_a_name_and_a_password() -> None:
    client = client_exchange("PLAIN", Credentials("alice", "p\u00e4ss"), NONCE)
    assert client.first() == "\0alice\0p\u00e4ss".encode()
    assert client.on_reply(b"") is None


def test_oauthbearer_is_a_token_with_extensions() -> None:
    own = Credentials(token="abc.def", extensions={"logicalCluster": "lkc-1"})
    client = client_exchange("OAUTHBEARER", own, NONCE)
    assert client.first() == b"n,,\x01auth=Bearer abc.def\x01logicalCluster=lkc-1\x01\x01"
    assert client.on_reply(b"") is None


def test_a_token_that_is_refused_is_acknowledged_as_rfc_7628_wants() -> None:
    client = client_exchange("OAUTHBEARER", Credentials(token="abc"), NONCE)
    assert client.on_reply(b'{"status":"invalid_token"}') == b"\x01"


@pytest.mark.parametrize("extensions", [{"auth": "x"}, {"a-b": "x"}, {"a": "x\x01auth=Bearer y"}, {"a": ""}])
def test_an_extension_cannot_be_anything_else(extensions: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="extension"):
        client_exchange("OAUTHBEARER", Credentials(token="abc", extensions=extensions), NONCE)


def test_an_unknown_mechanism_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"):
        client_exchange("GSSAPI", Credentials(), NONCE)


def test_credentials_do_not_show_their_secrets() -> None:
    shown = repr(Credentials("alice", "hunter2", "hunter3", {"key": "hunter4"}))
    assert "alice" in shown
    assert "hunter" not in shown
