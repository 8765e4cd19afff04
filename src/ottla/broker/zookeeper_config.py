"""How a broker shows ZooKeeper who it is, and how it knows that it talks to ZooKeeper; one row per key.

Kafka's names and defaults. Where Kafka takes user and password from Java's login configuration (a system
property of the process), a key of our own names that file.
"""

from dataclasses import dataclass

from ottla.base.config import ConfigError, ConfigType, key, one_of

PASSWORD = ConfigType.PASSWORD
STORE_TYPES = ("", "PEM", "PKCS12", "JKS")
PROTOCOLS = ("TLSv1.2", "TLSv1.3")
JAAS_FILE = "ottla.zookeeper.sasl.jaas.file"


def _protocols(value: tuple[str, ...]) -> str | None:
    return one_of(*PROTOCOLS)(value) if value else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperConfig:
    jaas_file: str = key(
        JAAS_FILE,
        "",
        "A JAAS file as Kafka's -Djava.security.auth.login.config names it: the DigestLoginModule of its "
        "section Client has the user and password for SASL towards ZooKeeper. Empty: no SASL.",
    )
    sets_acls: bool = key(
        "zookeeper.set.acl",
        False,
        "Only this user may change the nodes that brokers make, and read those with secrets. Needs SASL or "
        "a TLS key.",
    )
    client_socket: str = key(
        "zookeeper.clientCnxnSocket", "", "Kafka needs it for TLS towards ZooKeeper; of no effect here."
    )
    is_tls: bool = key("zookeeper.ssl.client.enable", False, "Talk to ZooKeeper over TLS.")
    keystore_location: str = key(
        "zookeeper.ssl.keystore.location", "", "The key and certificate to show to ZooKeeper; empty: none."
    )
    keystore_password: str = key(
        "zookeeper.ssl.keystore.password", "", "The password of that file.", type=PASSWORD
    )
    keystore_type: str = key(
        "zookeeper.ssl.keystore.type",
        "",
        "PEM or PKCS12; empty: by the end of the name (.pem, .p12, .pfx). JKS cannot be read.",
        check=one_of(*STORE_TYPES),
    )
    truststore_location: str = key(
        "zookeeper.ssl.truststore.location",
        "",
        "Certificates of those who may vouch for ZooKeeper; empty: those that the system trusts.",
    )
    truststore_password: str = key(
        "zookeeper.ssl.truststore.password", "", "The password of that file.", type=PASSWORD
    )
    truststore_type: str = key(
        "zookeeper.ssl.truststore.type",
        "",
        "PEM or PKCS12; empty: by the end of the name.",
        check=one_of(*STORE_TYPES),
    )
    protocol: str = key("zookeeper.ssl.protocol", "TLSv1.2", "The version of TLS.", check=one_of(*PROTOCOLS))
    enabled_protocols: tuple[str, ...] = key(
        "zookeeper.ssl.enabled.protocols",
        (),
        "Versions of TLS to choose from; empty: what zookeeper.ssl.protocol says.",
        check=_protocols,
    )
    cipher_suites: tuple[str, ...] = key(
        "zookeeper.ssl.cipher.suites",
        (),
        "Cipher suites, by Java's or OpenSSL's names; empty: OpenSSL's choice.",
    )
    endpoint_identification_algorithm: str = key(
        "zookeeper.ssl.endpoint.identification.algorithm",
        "HTTPS",
        "HTTPS: ZooKeeper's certificate must be for the host that was asked; anything else: for any.",
    )

    @property
    def versions(self) -> tuple[str, ...]:
        """Of TLS."""
        return self.enabled_protocols or ((self.protocol,) if self.protocol else PROTOCOLS)

    @property
    def has_identity(self) -> bool:
        """Whether ZooKeeper gets to know who asks."""
        return bool(self.jaas_file or (self.is_tls and self.keystore_location))


def check_zookeeper(config: ZooKeeperConfig) -> None:
    """Whether rows go together; ConfigError if not."""
    if config.sets_acls and not config.has_identity:
        raise ConfigError(
            "zookeeper.set.acl: nodes cannot be kept for a user that ZooKeeper does not know; name user and "
            f"password by {JAAS_FILE}, or a certificate by zookeeper.ssl.client.enable and "
            "zookeeper.ssl.keystore.location"
        )
