"""Certificates and keys as PEM, whatever they come as: text in a property, a PEM file, a PKCS12 file.

What a file is, its first bytes say, not its name.
"""

import re
from typing import NamedTuple

from ottla.client.errors import ClientError
from ottla.client.security.tls_settings import Store, TlsSettings
from ottla.security.pkcs12 import JAVA_MAGIC, Pkcs12, open_pkcs12

_SEQUENCE = b"\x30"  # what PKCS12 begins with, being DER
_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----.+?-----END \1-----", re.DOTALL)
_CERTIFICATE, _KEY = "CERTIFICATE", "PRIVATE KEY"


class OwnKey(NamedTuple):
    """The client's certificates, its own first, its key, and the password of the key if it has one."""

    certificates: str
    key: str
    password: str

    def __repr__(self) -> str:
        return "OwnKey(...)"


def trusted(tls: TlsSettings) -> str:
    """The certificates that are believed; empty for the system's authorities."""
    return trusted_of(tls.trusted) if tls.trusted else ""


def trusted_of(store: Store) -> str:
    content = _read(store)
    if isinstance(content, str):
        return _blocks(content, _CERTIFICATE, store)
    opened = _opened(content, store)
    if not (opened.own or opened.others):
        raise ClientError(f"{store.location} ({store.name}) holds no certificate")
    return "".join((*opened.others, opened.own))


def own(tls: TlsSettings) -> OwnKey | None:
    if not tls.key:
        return None
    content = _read(tls.key)
    if isinstance(content, str):
        certificates = _read(tls.certificate)
        assert isinstance(certificates, str)
        return OwnKey(
            _blocks(certificates, _CERTIFICATE, tls.certificate),
            _blocks(content, _KEY, tls.key),
            tls.key.password,
        )
    return _of_pkcs12(content, tls.certificate)


def _of_pkcs12(content: bytes, store: Store) -> OwnKey:
    opened = _opened(content, store)
    if not (opened.key and opened.own):
        raise ClientError(f"{store.location} ({store.name}) holds no private key with its certificate")
    return OwnKey("".join((opened.own, *opened.others)), opened.key, "")


def _read(store: Store) -> str | bytes:
    """PEM as text, PKCS12 as bytes."""
    if store.pem:
        # In a file of properties a line break may have become two characters, and be one for Java.
        return store.pem.replace("\\n", "\n")
    try:
        with open(store.location, "rb") as file:
            content = file.read()
    except OSError as error:
        raise ClientError(f"cannot read {store.location} ({store.name}): {error.strerror}") from None
    if b"-----BEGIN" in content:
        return content.decode(errors="replace")
    if store.type == "PEM":
        raise ClientError(f"{store.location} ({store.name}) is not a PEM file")
    if content.startswith(JAVA_MAGIC):
        raise ClientError(
            f"{store.location} ({store.name}) is a Java keystore (JKS), which only Java reads; make PKCS12 "
            f"of it: keytool -importkeystore -srckeystore {store.location} -deststoretype PKCS12 "
            "-destkeystore NEW.p12"
        )
    if not content.startswith(_SEQUENCE):
        raise ClientError(f"{store.location} ({store.name}) is neither PEM nor PKCS12")
    return content


def _opened(content: bytes, store: Store) -> Pkcs12:
    try:
        return open_pkcs12(content, store.password)
    except ImportError:
        raise ClientError(
            f"{store.location} ({store.name}) is PKCS12, which takes the package cryptography to read: "
            "pip install 'ottla[tls]'; or give PEM"
        ) from None
    except ValueError:
        password = store.name.rpartition(".")[0] + ".password"
        raise ClientError(
            f"{store.location} ({store.name}) cannot be opened: is {password} right, and is it PKCS12?"
        ) from None


def _blocks(text: str, kind: str, store: Store) -> str:
    """The blocks of a kind: a PEM keystore has a key and certificates in one file."""
    blocks = [block[0] for block in _BLOCK.finditer(text) if block[1].endswith(kind)]
    if not blocks:
        source = f"{store.location} ({store.name})" if store.location else store.name
        raise ClientError(f"{source} holds no {kind} in PEM")
    return "\n".join([*blocks, ""])
