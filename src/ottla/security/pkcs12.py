"""What is in a PKCS12 file, as PEM. OpenSSL takes PEM alone, and Python's `ssl` reads no PKCS12.

Needs cryptography, an extra: ImportError without it.
"""

from typing import NamedTuple

# What JKS and JCEKS begin with, Java's own formats, which nothing reads here. Java writes PKCS12 into files
# that are called .jks as well, so it is the bytes that count.
JAVA_MAGIC = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")


class Pkcs12(NamedTuple):
    """A private key, not encrypted, its certificate, and others. What is not there is empty."""

    key: str
    own: str
    others: tuple[str, ...]

    def __repr__(self) -> str:
        return "Pkcs12(...)"


def open_pkcs12(content: bytes, password: str) -> Pkcs12:
    """ValueError: it is no PKCS12, or the password is wrong."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    try:
        store = load_pkcs12(content, password.encode() or None)
    except TypeError as error:  # of a password where there is none, or none where there is one
        raise ValueError(str(error)) from None
    own, others = (
        [entry.certificate.public_bytes(Encoding.PEM).decode() for entry in entries]
        for entries in ([store.cert] if store.cert else [], store.additional_certs)
    )
    key = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) if store.key else b""
    return Pkcs12(key.decode(), "".join(own), tuple(others))
