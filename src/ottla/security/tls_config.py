"""The configuration keys of TLS, as they hold for one listener.

Keys and certificates come as PEM, in a file or inline, or as a PKCS12 file. What is wrong with them is said
by the name of the key, never with a value: it may be a secret.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ottla.base.config import ConfigError, ConfigType, key, load, one_of, rows

PASSWORD = ConfigType.PASSWORD
VERSIONS = ("TLSv1.2", "TLSv1.3")
CLIENT_AUTH = ("none", "requested", "required")
STORE_TYPES = ("JKS", "PKCS12", "PEM")
# OpenSSL takes all of TLS 1.3's or none: Python cannot choose among them.
SUITES_1_3 = {"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}


def _store_type(value: str) -> str | None:
    return one_of(*STORE_TYPES)(value.upper())


def _rules(value: str) -> str | None:
    from ottla.security.principal_rules import check_rules  # few have any

    return check_rules(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsConfig:
    keystore_type: str = key(
        "ssl.keystore.type",
        "JKS",
        "PEM, or PKCS12. Files of Java's own format, JKS, cannot be read.",
        check=_store_type,
        dynamic=True,
    )
    keystore_location: str = key(
        "ssl.keystore.location", "", "The file with private key and certificates.", dynamic=True
    )
    keystore_password: str = key(
        "ssl.keystore.password", "", "The password of a PKCS12 file.", type=PASSWORD, dynamic=True
    )
    key_password: str = key(
        "ssl.key.password", "", "The password of an encrypted private key.", type=PASSWORD, dynamic=True
    )
    keystore_key: str = key(
        "ssl.keystore.key", "", "The private key itself, as PEM.", type=PASSWORD, dynamic=True
    )
    keystore_chain: str = key(
        "ssl.keystore.certificate.chain",
        "",
        "The certificate and those of its authorities, as PEM.",
        type=PASSWORD,
        dynamic=True,
    )
    truststore_type: str = key(
        "ssl.truststore.type", "JKS", "PEM, or PKCS12.", check=_store_type, dynamic=True
    )
    truststore_location: str = key(
        "ssl.truststore.location",
        "",
        "The file with the certificates of trusted authorities. Without any, those of the system are.",
        dynamic=True,
    )
    truststore_password: str = key(
        "ssl.truststore.password", "", "The password of a PKCS12 file.", type=PASSWORD, dynamic=True
    )
    truststore_certificates: str = key(
        "ssl.truststore.certificates",
        "",
        "The certificates of trusted authorities themselves, as PEM.",
        type=PASSWORD,
        dynamic=True,
    )
    protocol: str = key(
        "ssl.protocol",
        "TLSv1.3",
        "With TLSv1.2, TLS 1.3 is not spoken.",
        check=one_of("TLS", *VERSIONS),
    )
    enabled_protocols: tuple[str, ...] = key(
        "ssl.enabled.protocols", VERSIONS, "The versions of TLS that are spoken.", check=one_of(*VERSIONS)
    )
    cipher_suites: tuple[str, ...] = key(
        "ssl.cipher.suites", (), "The cipher suites, by Java's or OpenSSL's names; empty: OpenSSL's choice."
    )
    client_auth: str = key(
        "ssl.client.auth",
        "none",
        "Whether clients are asked for a certificate (requested), or must have one (required).",
        check=one_of(*CLIENT_AUTH),
    )
    endpoint_identification: str = key(
        "ssl.endpoint.identification.algorithm",
        "https",
        "Empty: brokers do not check that another's certificate is for its host.",
        check=lambda value: one_of("", "https")(value.lower()),
    )
    mapping_rules: str = key(
        "ssl.principal.mapping.rules",
        "DEFAULT",
        "How the name in a client's certificate becomes its principal's: RULE:PATTERN/REPLACEMENT/[LU],... "
        "and DEFAULT; the first that matches counts.",
        check=_rules,
    )

    @property
    def versions(self) -> tuple[str, ...]:
        """Those that are spoken, in order."""
        spoken = [version for version in VERSIONS if version in self.enabled_protocols]
        if self.protocol == VERSIONS[0]:
            spoken = [version for version in spoken if version == VERSIONS[0]]
        if self.cipher_suites:
            newer, older = SUITES_1_3.intersection(self.cipher_suites), self.older_suites
            spoken = [version for version in spoken if (newer if version == VERSIONS[1] else older)]
        return tuple(spoken)

    @property
    def older_suites(self) -> tuple[str, ...]:
        """The cipher suites for TLS 1.2, by OpenSSL's names."""
        return tuple(openssl_name(suite) for suite in self.cipher_suites if suite not in SUITES_1_3)


# May be set for a listener while the broker runs. Passwords may not: the keeper has no place for secrets.
DYNAMIC = frozenset(row.name for row in rows(TlsConfig) if row.dynamic and row.type is not PASSWORD)


def openssl_name(suite: str) -> str:
    """TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 is ECDHE-RSA-AES128-GCM-SHA256 there."""
    parts = re.match(r"TLS_(?P<exchange>[A-Z_]+)_WITH_(?P<cipher>[A-Z0-9_]+?)_(?P<hash>SHA\d*)\Z", suite)
    if not parts:
        return suite
    exchange = "" if parts["exchange"] == "RSA" else parts["exchange"].replace("_", "-") + "-"
    cipher = re.sub(r"\AAES_(\d+)", r"AES\1", parts["cipher"]).replace("_CBC", "").replace("_", "-")
    return exchange + cipher if cipher.startswith("CHACHA20") else f"{exchange}{cipher}-{parts['hash']}"


def load_tls(properties: Mapping[str, str]) -> TlsConfig:
    """ConfigError: what is given does not go together."""
    config = load(TlsConfig, properties)
    _check_store(config)
    chosen = SUITES_1_3.intersection(config.cipher_suites)
    if chosen and chosen != SUITES_1_3:
        raise ConfigError(
            f"ssl.cipher.suites: those of TLS 1.3 can only be had together: {', '.join(sorted(SUITES_1_3))}"
        )
    if not config.versions:
        raise ConfigError("ssl.enabled.protocols: no version is left that ssl.protocol and suites allow")
    return config


def _check_store(config: TlsConfig) -> None:
    """As Kafka does."""
    is_inline = config.keystore_key or config.keystore_chain
    if is_inline and config.keystore_type.upper() != "PEM":
        raise ConfigError("ssl.keystore.key: a key that is given inline is PEM; set ssl.keystore.type=PEM")
    if is_inline and config.keystore_location:
        raise ConfigError("ssl.keystore.key: there is ssl.keystore.location, too; leave out one of them")
    if is_inline and not (config.keystore_key and config.keystore_chain):
        raise ConfigError("ssl.keystore.key and ssl.keystore.certificate.chain go together; one is missing")
    if config.keystore_type.upper() == "PEM" and config.keystore_password:
        raise ConfigError("ssl.keystore.password: PEM has no such password; set ssl.key.password")
    if config.truststore_certificates and config.truststore_type.upper() != "PEM":
        raise ConfigError("ssl.truststore.certificates: they are PEM; set ssl.truststore.type=PEM")
    if config.truststore_certificates and config.truststore_location:
        raise ConfigError("ssl.truststore.certificates: there is ssl.truststore.location, too; leave out one")
    if config.truststore_type.upper() == "PEM" and config.truststore_password:
        raise ConfigError("ssl.truststore.password: PEM has no such password; leave it out")
