"""Certificates for tests: an authority, and what it signs for brokers and clients, as PEM and as PKCS12."""

import datetime
import ipaddress
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

DAY = datetime.timedelta(days=1)
LOCAL = ("localhost", "127.0.0.1")
PASSWORD = "store-secret"


class Certificate:
    """With its key, and the chain up to its authority."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self.certificate = certificate
        self.key = key

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    @property
    def key_pem(self) -> str:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()

    def encrypted_key_pem(self, password: str = PASSWORD) -> str:
        encryption = BestAvailableEncryption(password.encode())
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()

    def write_pem(self, path: Path) -> Path:
        """A keystore of type PEM: the key, then the certificate."""
        path.write_text(self.key_pem + self.pem)
        return path

    def write_pkcs12(self, path: Path, password: str = PASSWORD) -> Path:
        encryption = BestAvailableEncryption(password.encode())
        made = pkcs12.serialize_key_and_certificates(b"own", self.key, self.certificate, None, encryption)
        path.write_bytes(made)
        return path


class Authority(Certificate):
    def __init__(self, name: str = "test authority") -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _named(name)
        builder = _builder(subject, subject, key, 0)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        super().__init__(builder.sign(key, hashes.SHA256()), key)

    def sign(self, name: str, hosts: Sequence[str] = LOCAL, expired: bool = False) -> Certificate:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_named(name), self.certificate.subject, key, -30 if expired else 0)
        names = [_host(host) for host in hosts]
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return Certificate(builder.sign(self.key, hashes.SHA256()), key)

    def write_truststore(self, path: Path, password: str = PASSWORD) -> Path:
        """PKCS12 with the authority's certificate alone, as keytool makes it."""
        trusted = pkcs12.PKCS12Certificate(self.certificate, b"authority")
        encryption = BestAvailableEncryption(password.encode())
        path.write_bytes(pkcs12.serialize_java_truststore([trusted], encryption))
        return path


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, shift_days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC) + shift_days * DAY
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - DAY)
        .not_valid_after(now + 10 * DAY)
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
