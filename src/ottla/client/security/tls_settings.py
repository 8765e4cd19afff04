"""What the `ssl.*` properties of a client say: whom to believe, and what to show of oneself.

Java and librdkafka have names of their own for the same things; a thing that is said twice is an error, as in
Kafka. Java's type of a store is JKS unless told otherwise, and Java reads PKCS12 all the same under that
name: so the bytes of a file say what it is, unless the type is PEM.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.client.errors import ClientError

VERSIONS = ("TLSv1.2", "TLSv1.3")
TYPES = ("PEM", "PKCS12", "JKS")
HTTPS = "https"


@dataclass(frozen=True, slots=True)
class Store:
    """Certificates or a key, in a file or as text. `type` is empty where the bytes are to say it."""

    location: str = ""
    pem: str = field(default="", repr=False)
    type: str = ""
    password: str = field(default="", repr=False)
    name: str = ""  # of the property that says so

    def __bool__(self) -> bool:
        return bool(self.location or self.pem)


NO_STORE = Store()


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """`certificate` and `key` may be the same store. Without `trusted` the system's authorities are."""

    trusted: Store = NO_STORE
    certificate: Store = NO_STORE
    key: Store = NO_STORE
    is_name_checked: bool = True
    is_verified: bool = True
    versions: tuple[str, ...] = VERSIONS
    ciphers: str = ""


def tls_settings(given: Mapping[str, str]) -> TlsSettings:
    certificate, key = _own(given)
    algorithm = given.get("ssl.endpoint.identification.algorithm", HTTPS).strip().lower()
    if algorithm not in {HTTPS, "", "none"}:
        raise ClientError(
            "ssl.endpoint.identification.algorithm is https, or empty to accept a certificate of any name, "
            f"not {algorithm!r}"
        )
    return TlsSettings(
        trusted=_trusted(given),
        certificate=certificate,
        key=key,
        is_name_checked=algorithm == HTTPS,
        is_verified=boolean(given, "enable.ssl.certificate.verification", True),
        versions=_versions(given),
        ciphers=given.get("ssl.cipher.suites", "").strip().replace(",", ":"),
    )


def boolean(given: Mapping[str, str], name: str, default: bool) -> bool:
    value = given.get(name, str(default)).strip().lower()
    if value not in {"true", "false"}:
        raise ClientError(f"{name} is true or false, not {value!r}")
    return value == "true"


def only(given: Mapping[str, str], *names: str) -> str:
    """The name of the one property of these that is given; empty if none is."""
    chosen = [name for name in names if given.get(name, "").strip()]
    if len(chosen) > 1:
        raise ClientError(f"{' and '.join(chosen)} say the same thing twice: give one of them")
    return chosen[0] if chosen else ""


def _trusted(given: Mapping[str, str]) -> Store:
    name = only(
        given, "ssl.truststore.location", "ssl.truststore.certificates", "ssl.ca.location", "ssl.ca.pem"
    )
    type_ = _type(given, "ssl.truststore.type", "ssl.truststore.certificates", name)
    match name:
        case "":
            for detail in ("ssl.truststore.type", "ssl.truststore.password"):
                if detail in given:
                    raise ClientError(f"{detail} is given without ssl.truststore.location")
            return NO_STORE
        case "ssl.truststore.location":
            password = given.get("ssl.truststore.password", "")
            return Store(location=given[name], type=type_, password=password, name=name)
        case "ssl.ca.location":
            return Store(location=given[name], type="PEM", name=name)
        case _:
            return Store(pem=given[name], type="PEM", name=name)


def _own(given: Mapping[str, str]) -> tuple[Store, Store]:
    chain = only(
        given,
        "ssl.keystore.location",
        "ssl.keystore.certificate.chain",
        "ssl.certificate.location",
        "ssl.certificate.pem",
    )
    key = only(given, "ssl.keystore.location", "ssl.keystore.key", "ssl.key.location", "ssl.key.pem")
    if bool(chain) != bool(key):
        missing = "its private key" if chain else "the certificate that belongs to it"
        wanted = "ssl.keystore.key, ssl.key.location" if chain else "ssl.keystore.certificate.chain"
        raise ClientError(f"{chain or key} is given without {missing}: {wanted} or ssl.keystore.location")
    type_ = _type(given, "ssl.keystore.type", "ssl.keystore.key", key)
    key_password = given.get("ssl.key.password", "")
    if not key:
        for detail in ("ssl.key.password", "ssl.keystore.password", "ssl.keystore.type"):
            if detail in given:
                raise ClientError(f"{detail} is given without a key: ssl.keystore.location or another")
        return NO_STORE, NO_STORE
    if key == "ssl.keystore.location":
        password = given.get("ssl.keystore.password", "")
        store = Store(location=given[key], type=type_, password=password or key_password, name=key)
        # In a PEM file it is the key alone that has a password.
        return store, Store(store.location, "", type_, key_password or password, key)
    return _store(given, chain, ""), _store(given, key, key_password)


def _store(given: Mapping[str, str], name: str, password: str) -> Store:
    if name.endswith(".location"):
        return Store(location=given[name], type="PEM", password=password, name=name)
    return Store(pem=given[name], type="PEM", password=password, name=name)


def _type(given: Mapping[str, str], name: str, text: str, used: str) -> str:
    """Of a store: PEM, or empty where the bytes of the file say it."""
    type_ = given.get(name, "").strip().upper()
    if type_ and type_ not in TYPES:
        raise ClientError(f"{name} is one of {', '.join(TYPES)}, not {type_!r}")
    if used == text and type_ not in {"", "PEM"}:
        raise ClientError(f"{text} is for {name}=PEM, and it is {type_}")
    return "PEM" if type_ == "PEM" else ""


def _versions(given: Mapping[str, str]) -> tuple[str, ...]:
    for name in ("ssl.enabled.protocols", "ssl.protocol"):
        asked = [part.strip() for part in given.get(name, "").split(",") if part.strip()]
        for version in asked:
            if version not in VERSIONS and (name, version) != ("ssl.protocol", "TLS"):
                raise ClientError(f"{name} takes {' and '.join(VERSIONS)}, not {version!r:.40}")
        if name == "ssl.enabled.protocols" and asked:
            return tuple(version for version in VERSIONS if version in asked)
    return VERSIONS
