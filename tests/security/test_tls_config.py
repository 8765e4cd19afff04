"""The keys of TLS: what goes together, and by which names suites are known."""

import ssl

import pytest

from ottla.base.config import ConfigError
from ottla.security.tls_config import SUITES_1_3, TlsConfig, load_tls, openssl_name

HUSH = "hush-hush"
PEM = {"ssl.keystore.type": "PEM", "ssl.truststore.type": "pem"}


def refusal(**properties: str) -> str:
    with pytest.raises(ConfigError) as refused:
        load_tls({name.replace("_", "."): value for name, value in properties.items()})
    assert HUSH not in str(refused.value)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_defaults_are_those_of_kafka() -> None:
    config = load_tls({})
    assert config == TlsConfig()
    assert (config.keystore_type, config.truststore_type, config.protocol) == ("JKS", "JKS", "TLSv1.3")
    assert (config.client_auth, config.endpoint_identification) == ("none", "https")
    assert config.versions == ("TLSv1.2", "TLSv1.3")


def test_a_key_is_inline_or_in_a_file_and_whole() -> None:
    assert "set ssl.keystore.type=PEM" in refusal(ssl_keystore_key=HUSH, ssl_keystore_certificate_chain="c")
    inline = PEM | {"ssl.keystore.key": HUSH}
    assert "one is missing" in refusal(**{name.replace(".", "_"): value for name, value in inline.items()})
    both = inline | {"ssl.keystore.location": "f"}
    assert "leave out one of them" in refusal(
        **{name.replace(".", "_"): value for name, value in both.items()}
    )
    assert "set ssl.key.password" in refusal(ssl_keystore_type="PEM", ssl_keystore_password=HUSH)
    assert "leave it out" in refusal(ssl_truststore_type="PEM", ssl_truststore_password=HUSH)
    assert "set ssl.truststore.type=PEM" in refusal(ssl_truststore_certificates=HUSH)
    assert "leave out one" in refusal(
        ssl_truststore_certificates="c", ssl_truststore_type="PEM", ssl_truststore_location="f"
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ssl.keystore.type", "BKS"),
        ("ssl.protocol", "SSLv3"),
        ("ssl.enabled.protocols", "TLSv1.1,TLSv1.2"),
        ("ssl.client.auth", "maybe"),
        ("ssl.endpoint.identification.algorithm", "ldaps"),
        ("ssl.principal.mapping.rules", "default"),
    ],
)
def test_a_value_that_is_none_is_refused_by_its_key(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"^{name}: must be"):
        load_tls({name: value})


@pytest.mark.parametrize(
    ("protocol", "enabled", "suites", "versions"),
    [
        ("TLSv1.3", "TLSv1.2,TLSv1.3", "", ("TLSv1.2", "TLSv1.3")),
        ("TLSv1.2", "TLSv1.2,TLSv1.3", "", ("TLSv1.2",)),
        ("TLS", "TLSv1.3", "", ("TLSv1.3",)),
        ("TLS", "TLSv1.2,TLSv1.3", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", ("TLSv1.2",)),
        ("TLS", "TLSv1.2,TLSv1.3", ",".join(SUITES_1_3), ("TLSv1.3",)),
    ],
)
def test_versions_are_those_that_all_keys_allow(
    protocol: str, enabled: str, suites: str, versions: tuple[str, ...]
) -> None:
    given = {"ssl.protocol": protocol, "ssl.enabled.protocols": enabled, "ssl.cipher.suites": suites}
    assert load_tls(given).versions == versions


def test_what_cannot_be_chosen_is_refused() -> None:
    assert "no version is left" in refusal(ssl_protocol="TLSv1.2", ssl_enabled_protocols="TLSv1.3")
    assert "can only be had together" in refusal(ssl_cipher_suites="TLS_AES_128_GCM_SHA256")


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("TLS_DHE_RSA_WITH_AES_256_CBC_SHA256", "DHE-RSA-AES256-SHA256"),
        ("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", "ECDHE-RSA-AES256-SHA"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
        ("TLS_RSA_WITH_AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        ("ECDHE-RSA-AES128-SHA", "ECDHE-RSA-AES128-SHA"),
    ],
)
def test_javas_names_of_suites_are_known_by_those_of_openssl(java: str, openssl: str) -> None:
    assert openssl_name(java) == openssl
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers(openssl)
    assert openssl in {cipher["name"] for cipher in context.get_ciphers()}


def test_secrets_are_in_no_repr() -> None:
    config = load_tls(PEM | {"ssl.keystore.key": HUSH, "ssl.keystore.certificate.chain": "c"})
    assert HUSH not in repr(config)
