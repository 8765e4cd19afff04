"""Kafka's security properties become settings of ours, and what is wrong with them is one line."""

import pickle
from pathlib import Path
from typing import Any

import pytest
from tests.support.certificates import Authority, Identity

from ottla.client import ClientError
from ottla.client.librdkafka.security import librdkafka_security
from ottla.client.properties import client_properties, layered
from ottla.client.security import stores
from ottla.client.security.names import HONOURED, REFUSED, WITHOUT_EFFECT
from ottla.client.security.settings import NO_SECURITY, client_security

PASSWORD = "store-secret"
PACKAGE = "org.apache.kafka.common.security"
PLAIN_LINE = f'{PACKAGE}.plain.PlainLoginModule required username="alice" password="pass-secret";'
SCRAM_LINE = f'{PACKAGE}.scram.ScramLoginModule required username="alice" password="pass-secret";'
BEARER_LINE = (
    f'{PACKAGE}.oauthbearer.OAuthBearerLoginModule required clientId="app" clientSecret="app-secret" '
    'scope="kafka" extension_traceId="7";'
)
TLS = {"security.protocol": "SSL"}
PLAIN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
BEARER = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
ENDPOINT = {"sasl.oauthbearer.token.endpoint.url": "https://auth.example.com/token"}


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def identity(authority: Authority) -> Identity:
    return authority.issue("client")


def test_without_properties_there_is_no_security() -> None:
    assert client_security({}) == NO_SECURITY
    assert client_security({"security.protocol": "plaintext", "linger.ms": "5"}) == NO_SECURITY
    assert NO_SECURITY.protocol == "PLAINTEXT"


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_the_protocol_says_what_there_is(protocol: str) -> None:
    sasl = {"sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN_LINE} if "SASL" in protocol else {}
    security = client_security({"security.protocol": protocol, **sasl})
    assert (security.tls is not None, security.sasl is not None) == ("SSL" in protocol[-3:], bool(sasl))
    assert security.protocol == protocol


@pytest.mark.parametrize(
    "said",
    [
        {"sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN_LINE},
        {"sasl.mechanisms": "PLAIN", "sasl.username": "alice", "sasl.password": "pass-secret"},
    ],
)
def test_a_user_is_named_as_java_does_or_as_librdkafka_does(said: dict[str, str]) -> None:
    sasl = client_security({"security.protocol": "SASL_PLAINTEXT", **said}).sasl
    assert sasl is not None
    assert (sasl.mechanism, sasl.username, sasl.password) == ("PLAIN", "alice", "pass-secret")


def test_a_client_of_a_token_server_is_named_as_java_does_or_as_librdkafka_does() -> None:
    java = client_security({**BEARER, **ENDPOINT, "sasl.jaas.config": BEARER_LINE})
    librdkafka = client_security(
        {
            **BEARER,
            **ENDPOINT,
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "app",
            "sasl.oauthbearer.client.secret": "app-secret",
            "sasl.oauthbearer.scope": "kafka",
            "sasl.oauthbearer.extensions": "traceId=7",
        }
    )
    assert java == librdkafka
    assert java.sasl is not None
    assert java.sasl.tokens is not None
    assert java.sasl.tokens.extensions == (("traceId", "7"),)


WRONG: list[tuple[dict[str, str], str]] = [
    ({"security.protocol": "TLS"}, "security.protocol is one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
    ({"ssl.truststore.location": "x"}, "security.protocol is not given .*SSL or SASL_SSL"),
    ({**TLS, "sasl.mechanism": "PLAIN"}, "sasl.mechanism has no effect, because security.protocol is SSL"),
    ({**TLS, "ssl.truststor.location": "x"}, "is not known; did you mean ssl.truststore.location"),
    ({**TLS, "ssl.engine.factory.class": "x"}, "ssl.engine.factory.class is not supported: .*Java class"),
    ({**TLS, "ssl.truststore.location": "x", "ssl.ca.location": "x"}, "say the same thing twice"),
    ({**TLS, "ssl.keystore.key": "x"}, "ssl.keystore.key is given without the certificate"),
    ({**TLS, "ssl.certificate.location": "x"}, "without its private key"),
    ({**TLS, "ssl.key.password": "x"}, "ssl.key.password is given without a key"),
    ({**TLS, "ssl.truststore.type": "PEM"}, "without ssl.truststore.location"),
    ({**TLS, "ssl.truststore.type": "BKS", "ssl.truststore.location": "x"}, "one of PEM, PKCS12, JKS"),
    (
        {**TLS, "ssl.truststore.type": "JKS", "ssl.truststore.certificates": "x"},
        "is for ssl.truststore.type=PEM",
    ),
    ({**TLS, "ssl.endpoint.identification.algorithm": "ldaps"}, "is https, or empty"),
    ({**TLS, "ssl.enabled.protocols": "TLSv1.1"}, "takes TLSv1.2 and TLSv1.3"),
    ({**TLS, "enable.ssl.certificate.verification": "maybe"}, "is true or false"),
    ({"security.protocol": "SASL_SSL"}, "sasl.mechanism is not given.*GSSAPI"),
    ({**PLAIN, "sasl.mechanism": "GSSAPI"}, "sasl.mechanism=GSSAPI is not supported"),
    ({**PLAIN, "sasl.kerberos.service.name": "kafka"}, "Kerberos"),
    (PLAIN, "without a user: give sasl.jaas.config"),
    ({**PLAIN, "sasl.username": "alice"}, "without a password"),
    ({**PLAIN, "sasl.jaas.config": SCRAM_LINE}, "names ScramLoginModule, and sasl.mechanism=PLAIN takes"),
    ({**PLAIN, "sasl.jaas.config": PLAIN_LINE[:-1]}, "sasl.jaas.config: it does not end with a semicolon"),
    ({**PLAIN, "sasl.jaas.config": PLAIN_LINE, "sasl.username": "bob"}, "both say who connects"),
    ({**PLAIN, **ENDPOINT, "sasl.jaas.config": PLAIN_LINE}, "is for sasl.mechanism=OAUTHBEARER"),
    (BEARER, "takes a source of tokens"),
    ({**BEARER, **ENDPOINT}, "without a client's id and secret"),
    ({**BEARER, **ENDPOINT, "sasl.oauthbearer.token": "t"}, "takes one source of tokens"),
    ({**BEARER, "sasl.oauthbearer.token.endpoint.url": "ftp://x"}, "https://, http:// or file://"),
    ({**BEARER, "sasl.oauthbearer.token": "t", "sasl.username": "x"}, "sasl.username is not for"),
    (
        {**BEARER, "sasl.oauthbearer.token": "t", "sasl.login.callback.handler.class": "com.example.Mine"},
        "sasl.login.callback.handler.class=com.example.Mine is not supported",
    ),
    (
        {**BEARER, "sasl.jaas.config": f"{PACKAGE}.oauthbearer.OAuthBearerLoginModule required unsecured=1;"},
        "an option is not|unsecured is not supported|has no value|cannot be read",
    ),
]


@pytest.mark.parametrize(("properties", "said"), WRONG)
def test_what_is_wrong_is_one_line_that_names_it_and_tells_no_secret(
    properties: dict[str, str], said: str
) -> None:
    with pytest.raises(ClientError, match=said) as caught:
        client_security(properties)
    assert "\n" not in str(caught.value)
    assert "pass-secret" not in str(caught.value)


def test_no_property_is_in_two_lists() -> None:
    assert not HONOURED & WITHOUT_EFFECT
    assert not (HONOURED | WITHOUT_EFFECT) & REFUSED.keys()


def test_secrets_are_in_no_repr(authority: Authority, identity: Identity) -> None:
    properties = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": PLAIN_LINE,
        "ssl.truststore.certificates": authority.pem,
        "ssl.keystore.key": identity.key_pem(),
        "ssl.keystore.certificate.chain": identity.chain_pem,
        "ssl.key.password": "key-secret",
    }
    shown = repr(client_properties(properties, "a:1"))
    token = client_security({**BEARER, "sasl.oauthbearer.token": "token-secret"})
    server = client_security({**BEARER, **ENDPOINT, "sasl.jaas.config": BEARER_LINE})
    own = stores.own(client_security({**TLS, **_without_sasl(properties)}).tls or _none())
    for text in (shown, repr(token), repr(server), repr(own)):
        assert "secret" not in text.replace("client_secret", "")
        assert "PRIVATE" not in text


def _without_sasl(properties: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in properties.items() if name.startswith("ssl.")}


def _none() -> Any:
    raise AssertionError("there is TLS")


def test_settings_are_values_that_travel() -> None:
    security = client_security({**PLAIN, "sasl.jaas.config": PLAIN_LINE})
    assert pickle.loads(pickle.dumps(security)) == security
    assert len({security, client_security({**PLAIN, "sasl.jaas.config": PLAIN_LINE})}) == 1


# -- stores --------------------


def own_of(properties: dict[str, str]) -> stores.OwnKey | None:
    tls = client_security({**TLS, **properties}).tls
    assert tls is not None
    return stores.own(tls)


def trusted_of(properties: dict[str, str]) -> str:
    tls = client_security({**TLS, **properties}).tls
    assert tls is not None
    return stores.trusted(tls)


def test_a_truststore_is_read_whatever_it_is(tmp_path: Path, authority: Authority) -> None:
    pem = tmp_path / "ca.pem"
    pem.write_text(authority.pem)
    store = tmp_path / "ca.jks"  # as keytool names and makes it
    store.write_bytes(authority.pkcs12(PASSWORD))
    secret = {"ssl.truststore.password": PASSWORD}
    for said in (
        {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(pem)},
        {"ssl.truststore.location": str(pem)},
        {"ssl.truststore.certificates": authority.pem},
        {"ssl.truststore.certificates": authority.pem.replace("\n", "\\n")},
        {"ssl.ca.location": str(pem)},
        {"ssl.ca.pem": authority.pem},
        {"ssl.truststore.location": str(store), **secret},
        {"ssl.truststore.type": "PKCS12", "ssl.truststore.location": str(store), **secret},
        {"ssl.truststore.type": "JKS", "ssl.truststore.location": str(store), **secret},
    ):
        assert trusted_of(said).split() == authority.pem.split(), said
    assert trusted_of({}) == ""


def test_a_key_is_read_whatever_it_is_in(tmp_path: Path, identity: Identity) -> None:
    key, chain = identity.key_pem(), identity.chain_pem
    both, store = identity.write(tmp_path / "client.pem"), tmp_path / "client.p12"
    store.write_bytes(identity.pkcs12(PASSWORD))
    for said in (
        {"ssl.keystore.type": "PEM", "ssl.keystore.location": both},
        {"ssl.keystore.location": str(store), "ssl.keystore.password": PASSWORD},
        {"ssl.keystore.key": key, "ssl.keystore.certificate.chain": chain},
        {"ssl.key.location": both, "ssl.certificate.location": both},
        {"ssl.key.pem": key, "ssl.certificate.pem": chain},
    ):
        own = own_of(said)
        assert own is not None
        assert (own.key.split(), own.certificates.split()) == (key.split(), chain.split())
    assert own_of({}) is None


def test_a_store_that_cannot_be_read_is_told_with_what_to_do(tmp_path: Path, authority: Authority) -> None:
    java = tmp_path / "trusted.jks"
    java.write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    with pytest.raises(ClientError, match=r"is a Java keystore \(JKS\).*keytool -importkeystore .* PKCS12"):
        trusted_of({"ssl.truststore.type": "JKS", "ssl.truststore.location": str(java)})
    store = tmp_path / "ca.p12"
    store.write_bytes(authority.pkcs12(PASSWORD))
    with pytest.raises(ClientError, match=r"is ssl\.truststore\.password right"):
        trusted_of({"ssl.truststore.location": str(store), "ssl.truststore.password": "wrong"})
    with pytest.raises(ClientError, match=r"nowhere\.pem .* No such file"):
        trusted_of({"ssl.ca.location": "/nowhere.pem"})
    with pytest.raises(ClientError, match="is not a PEM file"):
        trusted_of({"ssl.truststore.type": "PEM", "ssl.truststore.location": str(store)})
    with pytest.raises(ClientError, match=r"ssl\.keystore\.key holds no PRIVATE KEY"):
        own_of({"ssl.keystore.key": authority.pem, "ssl.keystore.certificate.chain": authority.pem})


# -- librdkafka --------------------


def test_librdkafka_is_told_the_same_in_its_own_words(authority: Authority, identity: Identity) -> None:
    security = client_security(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": SCRAM_LINE,
            "ssl.truststore.certificates": authority.pem,
            "ssl.keystore.key": identity.key_pem(PASSWORD),
            "ssl.keystore.certificate.chain": identity.chain_pem,
            "ssl.key.password": PASSWORD,
            "ssl.endpoint.identification.algorithm": "",
        }
    )
    said = librdkafka_security(security)
    assert said.pop("ssl.ca.pem").split() == authority.pem.split()
    assert said.pop("ssl.certificate.pem").split() == identity.chain_pem.split()
    assert "ENCRYPTED PRIVATE KEY" in said.pop("ssl.key.pem")
    assert said == {
        "security.protocol": "sasl_ssl",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": "pass-secret",
        "ssl.key.password": PASSWORD,
        "ssl.endpoint.identification.algorithm": "none",
        "enable.ssl.certificate.verification": True,
    }


def test_what_librdkafka_cannot_be_told_is_refused() -> None:
    with pytest.raises(ClientError, match=r"ssl\.enabled\.protocols cannot be told to librdkafka"):
        librdkafka_security(client_security({**TLS, "ssl.enabled.protocols": "TLSv1.3"}))


# -- layers --------------------


def test_a_layer_wins_over_those_below() -> None:
    assert layered({"a": "1"}, {"a": "2", "b": "2"}, {"b": "3", "c": "3"}) == {"a": "1", "b": "2", "c": "3"}


def test_another_protocol_leaves_out_what_was_for_the_one_below() -> None:
    lower = {**PLAIN, "security.protocol": "SASL_SSL", "sasl.jaas.config": PLAIN_LINE, "ssl.ca.location": "x"}
    assert client_security(layered({"security.protocol": "PLAINTEXT"}, lower)) == NO_SECURITY
    assert layered({"security.protocol": "SSL"}, lower) == {
        "security.protocol": "SSL",
        "ssl.ca.location": "x",
    }
    kept = layered({"security.protocol": "SASL_PLAINTEXT"}, lower)
    assert kept.keys() == {"security.protocol", "sasl.mechanism", "sasl.jaas.config"}
    assert layered({"linger.ms": "5"}, lower) == {**lower, "linger.ms": "5"}
