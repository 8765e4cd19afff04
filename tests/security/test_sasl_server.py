"""The broker's side of PLAIN and SCRAM, against RFC vectors, the client's side, and who is up to no good."""

import contextlib
import hmac
from base64 import b64decode, b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.security.credentials import (
    ITERATIONS,
    MECHANISMS,
    CredentialError,
    ScramCredential,
    ScramMechanism,
    credential_of,
    salt_of,
    salted_password,
)
from ottla.security.principals import Principal
from ottla.security.sasl import plain, scram, scram_messages
from ottla.security.sasl.client import Credentials, client_exchange
from ottla.security.sasl.exchange import AuthenticationError, Mechanism, Step
from ottla.security.sasl.plain import Plain
from ottla.security.sasl.scram import Scram, ScramExchange

SHA_256, SHA_512 = ScramMechanism
NONCE, CLIENT_NONCE = bytes(range(32)), bytes(range(1, 33))
ALICE, SECRET = "alice", "alice-secret"


def stored(
    mechanism: ScramMechanism, password: str = SECRET, iterations: int = ITERATIONS
) -> ScramCredential:
    salt = salt_of(NONCE)
    return credential_of(mechanism, salt, salted_password(mechanism, password, salt, iterations), iterations)


USERS = {mechanism: {ALICE: stored(mechanism), "a=b,c": stored(mechanism)} for mechanism in ScramMechanism}


def mechanism_of(name: str) -> Mechanism:
    if name == "PLAIN":
        return Plain({ALICE: SECRET, "a=b,c": SECRET})
    return Scram(MECHANISMS[name], USERS[MECHANISMS[name]].get, lambda: b"the cluster's secret")


def run(name: str, own: Credentials) -> Step:
    server, client = mechanism_of(name).begin(NONCE), client_exchange(name, own, CLIENT_NONCE)
    token: bytes | None = client.first()
    while token is not None:
        step = server.step(token, 0)
        token = client.on_reply(step.reply)
    return step


NAMES = ["PLAIN", *MECHANISMS]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("user", [ALICE, "a=b,c"])
def test_client_and_broker_agree_and_the_broker_knows_who_it_is(name: str, user: str) -> None:
    assert run(name, Credentials(user, SECRET)).principal == Principal("User", user)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("user", "password"), [(ALICE, "wrong"), ("nobody", SECRET), (ALICE, SECRET + "x")])
def test_a_wrong_password_and_a_wrong_user_fail(name: str, user: str, password: str) -> None:
    with pytest.raises(AuthenticationError) as error:
        run(name, Credentials(user, password))
    assert password not in str(error.value)


def test_scram_sha_256_is_that_of_rfc_7677() -> None:
    salt = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    credential = credential_of(SHA_256, salt, salted_password(SHA_256, "pencil", salt, 4096), 4096)
    server = ScramExchange(SHA_256, lambda _user: (credential, True), "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    assert server.step(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO", 0).reply == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    last = server.step(
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        0,
    )
    assert last == Step(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", Principal("User", "user"))


# -- lessons of CVEs --


@pytest.mark.parametrize("token", [b"admin\0alice\0alice-secret", b"a\0alice\0alice-secret"])
def test_cve_2017_12610_plain_nobody_is_taken_for_another_than_they_proved_to_be(token: bytes) -> None:
    with pytest.raises(AuthenticationError, match="somebody else"):
        mechanism_of("PLAIN").begin(NONCE).step(token, 0)
    same = mechanism_of("PLAIN").begin(NONCE).step(b"alice\0alice\0alice-secret", 0)
    assert same.principal == Principal("User", ALICE)


@pytest.mark.parametrize("name", MECHANISMS)
def test_cve_2017_12610_scram_nobody_is_taken_for_another_than_they_prove_to_be(name: str) -> None:
    with pytest.raises(AuthenticationError, match="somebody else"):
        mechanism_of(name).begin(NONCE).step(b"n,a=admin,n=alice,r=abc", 0)
    assert mechanism_of(name).begin(NONCE).step(b"n,a=alice,n=alice,r=abc", 0).reply


@pytest.mark.parametrize("name", MECHANISMS)
def test_cve_2024_56128_the_final_message_must_have_the_nonce_of_both(name: str) -> None:
    """Signed correctly, with the client's nonce, another, or the server's part alone."""
    mechanism = MECHANISMS[name]
    for nonce in (
        "abc",
        "abc" + "x" * 43,
        scram_messages.nonce_of(NONCE),
        "z" + scram_messages.nonce_of(NONCE),
    ):
        server = mechanism_of(name).begin(NONCE)
        first = server.step(b"n,,n=alice,r=abc", 0).reply.decode()
        final = f"c=biws,r={nonce}"
        signed = f"n=alice,r=abc,{first},{final}"
        with pytest.raises(AuthenticationError, match="another nonce"):
            server.step(f"{final},p={proof(mechanism, signed)}".encode(), 0)


def proof(mechanism: ScramMechanism, signed: str, password: str = SECRET) -> str:
    salted = salted_password(mechanism, password, salt_of(NONCE), ITERATIONS)
    client_key = hmac.digest(salted, b"Client Key", mechanism.digest)
    signature = scram_messages.signature(mechanism, scram_messages.digest(mechanism, client_key), signed)
    return b64encode(scram_messages.xor(client_key, signature)).decode()


def test_cve_2021_38153_secrets_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both sides of every comparison have one length, whatever was sent, and whoever there is."""
    compared: list[tuple[object, object]] = []

    def compare(left: str, right: str) -> bool:
        compared.append((left, right))
        return left == right

    for module in (plain, scram):
        monkeypatch.setattr(module.hmac, "compare_digest", compare)
    for name in NAMES:
        for user, password in ((ALICE, "x"), ("nobody", "x" * 100), (ALICE, SECRET)):
            compared.clear()
            with contextlib.suppress(AuthenticationError):
                run(name, Credentials(user, password))
            assert compared, name
            assert all(len(left) == len(right) for left, right in compared)  # type: ignore[arg-type]


# -- what an attempt tells --


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_user_that_does_not_exist_looks_like_one_that_does(name: str) -> None:
    def first(user: str) -> scram_messages.ServerFirst:
        reply = mechanism_of(name).begin(NONCE).step(f"n,,n={user},r=abc".encode(), 0).reply
        return scram_messages.server_first(reply)

    real, made_up = first(ALICE), first("nobody")
    assert made_up.iterations == real.iterations
    assert abs(len(made_up.salt) - len(real.salt)) <= 1
    assert made_up.salt.isalnum()
    assert first("nobody").salt == made_up.salt, "it is always the same"
    assert first("somebody").salt != made_up.salt


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_user_that_does_not_exist_cannot_be_proved_to_be(name: str) -> None:
    """Not even by whoever guesses the keys that were made up."""
    server = mechanism_of(name).begin(NONCE)
    server.step(b"n,,n=nobody,r=abc", 0)
    assert isinstance(server, ScramExchange)
    server._credential = stored(MECHANISMS[name])
    first = f"r=abc{scram_messages.nonce_of(NONCE)}"
    signed = f"n=nobody,r=abc,{server._server_first},c=biws,{first}"
    with pytest.raises(AuthenticationError, match="no user 'nobody'"):
        server.step(f"c=biws,{first},p={proof(MECHANISMS[name], signed)}".encode(), 0)


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        (b"p=tls-unique,,n=alice,r=abc", "cannot be read"),
        (b"y,,n=alice,r=abc", "cannot be read"),
        (b"n,,m=1,n=alice,r=abc", "cannot be read"),
        (b"n,,n=,r=abc", "cannot be read"),
        (b"n,,n=al=ice,r=abc", "cannot be read"),
        (b"n,,n=alice,r=", "cannot be read"),
        (b"n,,n=alice,r=abc,tokenauth=true", "delegation token"),
        (b"n,,n=\xff,r=abc", "UTF-8"),
        (b"", "cannot be read"),
    ],
)
def test_a_first_message_that_is_not_scrams_is_refused(token: bytes, reason: str) -> None:
    with pytest.raises(AuthenticationError, match=reason):
        mechanism_of("SCRAM-SHA-256").begin(NONCE).step(token, 0)


def test_extensions_are_read_over_and_signed() -> None:
    server = mechanism_of("SCRAM-SHA-256").begin(NONCE)
    first = server.step(b"n,,n=alice,r=abc,x=1,tokenauth=false", 0).reply.decode()
    final = f"c=biws,r=abc{scram_messages.nonce_of(NONCE)},y=2"
    code = proof(SHA_256, f"n=alice,r=abc,x=1,tokenauth=false,{first},{final}")
    assert server.step(f"{final},p={code}".encode(), 0).principal == Principal("User", ALICE)


@pytest.mark.parametrize("binding", ["", "eSws", "biwsYQ=="])
def test_another_channel_binding_than_was_announced_is_refused(binding: str) -> None:
    server = mechanism_of("SCRAM-SHA-256").begin(NONCE)
    first = server.step(b"n,,n=alice,r=abc", 0).reply.decode()
    final = f"c={binding},r=abc{scram_messages.nonce_of(NONCE)}"
    code = proof(SHA_256, f"n=alice,r=abc,{first},{final}")
    with pytest.raises(AuthenticationError, match="channel binding"):
        server.step(f"{final},p={code}".encode(), 0)


@pytest.mark.parametrize(
    "token", [b"", b"alice", b"\0alice", b"\0alice\0alice-secret\0", b"\0\0x", b"\0alice\0"]
)
def test_a_message_that_is_not_plains_is_refused(token: bytes) -> None:
    with pytest.raises(AuthenticationError):
        mechanism_of("PLAIN").begin(NONCE).step(token, 0)


@pytest.mark.parametrize("name", NAMES)
@given(tokens=st.lists(st.binary(max_size=200), min_size=1, max_size=3))
def test_any_bytes_are_a_step_or_are_refused(name: str, tokens: list[bytes]) -> None:
    for beginning in (b"", b"n,,n=alice,r=", b"\0alice\0"):
        server = mechanism_of(name).begin(NONCE)
        with contextlib.suppress(AuthenticationError):
            for token in tokens:
                assert server.step(beginning + token, 0).principal is None


@given(st.data())
def test_no_change_of_a_good_final_message_is_good(data: st.DataObject) -> None:
    server = mechanism_of("SCRAM-SHA-256").begin(NONCE)
    client = client_exchange("SCRAM-SHA-256", Credentials(ALICE, SECRET), CLIENT_NONCE)
    final = bytearray(client.on_reply(server.step(client.first(), 0).reply) or b"")
    at = data.draw(st.integers(0, len(final) - 1))
    final[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(AuthenticationError):
        server.step(bytes(final), 0)


# -- what is stored --


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_credential_is_stored_as_kafka_stores_it(mechanism: ScramMechanism) -> None:
    credential = stored(mechanism, iterations=8192)
    text = credential.text()
    parts = [part.partition("=")[0] for part in text.split(",")]
    assert parts == ["salt", "stored_key", "server_key", "iterations"]
    assert ScramCredential.parse(text, mechanism) == credential
    assert ScramCredential.parse(",".join(reversed(text.split(","))), mechanism) == credential
    assert SECRET not in text


def test_a_credential_does_not_show_its_keys() -> None:
    credential = stored(SHA_256)
    assert repr(credential) == str(credential) == "ScramCredential(iterations=4096)"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "salt=YQ==,stored_key=YQ==,server_key=YQ==",
        "salt=YQ==,stored_key=YQ==,server_key=YQ==,iterations=4096",
        stored(SHA_512).text(),
        stored(SHA_256).text().replace("4096", "many"),
        stored(SHA_256).text().replace("4096", "4095"),
        stored(SHA_256).text().replace("salt=", "salt=!"),
        stored(SHA_256).text() + ",more=1",
    ],
)
def test_a_credential_that_cannot_be_read_says_so_without_its_text(text: str) -> None:
    with pytest.raises(CredentialError) as error:
        ScramCredential.parse(text, SHA_256)
    assert "YQ==" not in str(error.value)


@given(st.text())
def test_any_text_is_a_credential_or_is_refused(text: str) -> None:
    with contextlib.suppress(CredentialError):
        ScramCredential.parse(text, SHA_256)


def test_users_of_plain_are_the_options_that_say_so() -> None:
    options = {"username": "admin", "password": "p", "user_alice": "a", "user_": "b", "user_b_c": "c"}
    assert plain.users_of(options) == {"alice": "a", "b_c": "c"}
