"""A ZooKeeper that wants to know who asks: JAAS files for SASL, keys and certificates for TLS."""

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates
from cryptography.x509.oid import NameOID
from tests.cluster.zookeeper import Ensemble
from tests.support.ports import free_ports

MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"
USER, PASSWORD = "ottla", 'a "quoted" pass\\word'
SASL = {"authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"}
ENFORCED = {"enforce.auth.enabled": "true", "enforce.auth.schemes": "sasl"}


def jaas_line(**options: str) -> str:
    pairs = (f'{name}="{_escaped(value)}"' for name, value in options.items())
    return f"{MODULE} required {' '.join(pairs)};"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')


def client_jaas(folder: Path, user: str = USER, password: str = PASSWORD) -> Path:
    """What a broker is given: Kafka's own file, with a section for another purpose as well."""
    path = folder / f"client-{user}-{abs(hash(password))}.jaas"
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
    path.write_text(
        f'KafkaServer {{ {plain} required user_a="b"; }};\n'
        f"Client {{ // towards ZooKeeper\n  {jaas_line(username=user, password=password)}\n}};\n"
    )
    return path


def sasl_ensemble(
    folder: Path, *, is_enforced: bool = False, tick_ms: int = 500, host: str = "127.0.0.1"
) -> Ensemble:
    jaas = folder / "server.jaas"
    jaas.write_text(f"Server {{ {jaas_line(**{f'user_{USER}': PASSWORD, 'user_other': 'other'})} }};\n")
    settings = SASL | ENFORCED if is_enforced else SASL
    options = f"-Djava.security.auth.login.config={jaas}"
    return Ensemble(folder, tick_ms=tick_ms, host=host, settings=settings, java_options=options)


class Authority:
    """Signs certificates for 127.0.0.1, and writes all of it in PEM."""

    def __init__(self, folder: Path, name: str = "tests") -> None:
        self._folder, self._name = folder, name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = self._signed(name, self._key, None)
        self.path = folder / f"authority-{name}.pem"
        self.path.write_bytes(self._certificate.public_bytes(Encoding.PEM))

    def issue(self, name: str, password: str = "", address: str = "127.0.0.1") -> Path:
        """A file with a key and its certificate."""
        key = ec.generate_private_key(ec.SECP256R1())
        lock = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        path = self._folder / f"{name}-of-{self._name}.pem"
        path.write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, lock)
            + self._signed(name, key, address).public_bytes(Encoding.PEM)
        )
        return path

    def issue_pkcs12(self, name: str, password: str) -> Path:
        key = ec.generate_private_key(ec.SECP256R1())
        path = self._folder / f"{name}-of-{self._name}.p12"
        certificate = self._signed(name, key, "127.0.0.1")
        lock = BestAvailableEncryption(password.encode())
        path.write_bytes(serialize_key_and_certificates(name.encode(), key, certificate, None, lock))
        return path

    def _signed(self, name: str, key: ec.EllipticCurvePrivateKey, address: str | None) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self._name)])
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=10))
            .add_extension(x509.BasicConstraints(ca=address is None, path_length=None), critical=True)
        )
        if address is not None:
            names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self._key, hashes.SHA256())


class TlsEnsemble(Ensemble):
    """`secure_hosts` is where it speaks TLS and wants a certificate; `hosts` stays open, for four letter
    words."""

    def __init__(self, folder: Path, authority: Authority, *, client_auth: str = "need") -> None:
        [self.secure_port] = free_ports(1)
        super().__init__(
            folder,
            settings={
                "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
                "secureClientPort": str(self.secure_port),
                "secureClientPortAddress": "127.0.0.1",
                "ssl.keyStore.location": str(authority.issue("server")),
                "ssl.trustStore.location": str(authority.path),
                "ssl.enabledProtocols": "TLSv1.2,TLSv1.3",
                "ssl.clientAuth": client_auth,
            },
        )

    @property
    def secure_hosts(self) -> str:
        return f"127.0.0.1:{self.secure_port}"
