"""Certificates for tests: an authority, and what it issues, in all the forms in which Kafka's keys take them.

Keys are of elliptic curves: an RSA key takes a second to make.
"""

import datetime
import ipaddress
from dataclasses import dataclass, field
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
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

HERE = ("localhost", "127.0.0.1", "::1")
PEM = {"ssl.keystore.type": "PEM", "ssl.truststore.type": "PEM"}


def subject(common_name: str, **more: str) -> x509.Name:
    """`more`: other attributes, by cryptography's names for them, before the common name."""
    attributes = [x509.NameAttribute(getattr(NameOID, name), value) for name, value in more.items()]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _sans(hosts: tuple[str, ...]) -> list[x509.GeneralName]:
    sans: list[x509.GeneralName] = []
    for host in hosts:
        try:
            sans.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            sans.append(x509.DNSName(host))
    return sans


@dataclass
class Identity:
    """A private key and its certificate, with that of the authority behind it."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate
    authority: x509.Certificate

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)

    @property
    def chain_pem(self) -> str:
        chain = (self.certificate, self.authority)
        return "".join(certificate.public_bytes(Encoding.PEM).decode() for certificate in chain)

    def key_pem(self, password: str = "") -> str:
        encryption = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()

    def pkcs12(self, password: str) -> bytes:
        return pkcs12.serialize_key_and_certificates(
            b"broker",
            self.key,
            self.certificate,
            [self.authority],
            BestAvailableEncryption(password.encode()),
        )

    def write(self, path: Path, password: str = "") -> str:
        """Key and chain in one PEM file."""
        path.write_text(self.key_pem(password) + self.chain_pem)
        return str(path)


@dataclass
class Authority:
    name: str = "tests of Ottla"
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))
    certificate: x509.Certificate = field(init=False)

    def __post_init__(self) -> None:
        self.certificate = self._sign(
            subject(self.name), self.key, [(x509.BasicConstraints(ca=True, path_length=None), True)], days=30
        )

    def _sign(
        self,
        name: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        extensions: list[tuple[x509.ExtensionType, bool]],
        days: int,
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(subject(self.name))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=60))
            .not_valid_after(now + datetime.timedelta(days=days))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False
            )
        )
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical)
        return builder.sign(self.key, hashes.SHA256())

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def pkcs12(self, password: str) -> bytes:
        """A truststore."""
        trusted = pkcs12.PKCS12Certificate(self.certificate, b"authority")
        return pkcs12.serialize_java_truststore([trusted], BestAvailableEncryption(password.encode()))

    def issue(self, name: str | x509.Name, hosts: tuple[str, ...] = HERE, days: int = 30) -> Identity:
        """For servers and clients alike. With negative `days` it has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        extensions: list[tuple[x509.ExtensionType, bool]] = [(x509.ExtendedKeyUsage(usages), False)]
        if hosts:
            extensions.append((x509.SubjectAlternativeName(_sans(hosts)), False))
        named = subject(name) if isinstance(name, str) else name
        return Identity(key, self._sign(named, key, extensions, days), self.certificate)

    def properties(self, name: str | x509.Name = "broker", hosts: tuple[str, ...] = HERE) -> dict[str, str]:
        """The settings of a broker, or of a Java client, with a certificate of its own, all of it inline."""
        identity = self.issue(name, hosts)
        return PEM | {
            "ssl.keystore.key": identity.key_pem(),
            "ssl.keystore.certificate.chain": identity.chain_pem,
            "ssl.truststore.certificates": self.pem,
        }
