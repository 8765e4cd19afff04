"""What a client of ZooKeeper shows of itself and demands of ZooKeeper, and the ACLs of the nodes it makes.

ACLs are those of Kafka's `zookeeper.set.acl`: who made a node may do everything with it. Others may read it,
unless it is where secrets are: users' keys, configs of brokers, and the secret by which brokers know each
other.
"""

import contextlib
import importlib.util
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field

from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from ottla.broker.zookeeper_config import JAAS_FILE, PROTOCOLS, ZooKeeperConfig, check_zookeeper
from ottla.controller.znodes import PEER_SECRET
from ottla.security.jaas import JaasError
from ottla.security.jaas_file import UserAndPassword, zookeeper_credentials
from ottla.shell.lock import StartError

VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
SECRETS = ("/config/users", "/config/brokers", "/delegation_token/tokens", PEER_SECRET)


@dataclass(frozen=True, slots=True)
class ZooKeeperAccess:
    """`user` is '' where there is no SASL, `tls` None where there is no TLS."""

    user: str = ""
    password: str = field(default="", repr=False)
    tls: ssl.SSLContext | None = None
    sets_acls: bool = False

    def acls(self, path: str) -> list[ACL]:
        """Of a new node; `path` is below the chroot."""
        return secure_acls(path) if self.sets_acls else OPEN_ACL_UNSAFE


NO_ACCESS_CONTROL = ZooKeeperAccess()


def secure_acls(path: str) -> list[ACL]:
    return CREATOR_ALL_ACL if path.startswith(SECRETS) else [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]


def zookeeper_access(config: ZooKeeperConfig) -> ZooKeeperAccess:
    """ConfigError or StartError, with one line, if something that the config names is not as it must be."""
    check_zookeeper(config)
    user, password = _credentials(config.jaas_file) if config.jaas_file else ("", "")
    return ZooKeeperAccess(user, password, _context(config) if config.is_tls else None, config.sets_acls)


def _credentials(path: str) -> UserAndPassword:
    if importlib.util.find_spec("puresasl") is None:
        raise StartError(f"{JAAS_FILE}: SASL towards ZooKeeper needs `pip install 'ottla[zookeeper-sasl]'`")
    try:
        with open(path, encoding="utf-8") as file:
            return zookeeper_credentials(file.read())
    except OSError as error:
        raise StartError(f"{JAAS_FILE}: {path}: {error.strerror}") from None
    except (JaasError, UnicodeDecodeError) as error:
        reason = error if isinstance(error, JaasError) else "it is not UTF-8"
        raise StartError(f"{JAAS_FILE}: {path}: {reason}") from None


def _context(config: ZooKeeperConfig) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    names = config.enabled_protocols or ([config.protocol] if config.protocol else PROTOCOLS)
    versions = sorted(VERSIONS[name] for name in names)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    context.check_hostname = config.endpoint_identification_algorithm.upper() == "HTTPS"
    if config.truststore_location:
        with _explained("zookeeper.ssl.truststore.location", config.truststore_location):
            context.load_verify_locations(config.truststore_location)
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if config.keystore_location:
        with _explained("zookeeper.ssl.keystore.location", config.keystore_location):
            context.load_cert_chain(config.keystore_location, password=config.keystore_password)
    if config.cipher_suites:
        try:
            context.set_ciphers(":".join(config.cipher_suites))
        except ssl.SSLError:
            raise StartError("zookeeper.ssl.cipher.suites: OpenSSL knows none of these") from None
    return context


@contextlib.contextmanager
def _explained(key: str, path: str) -> Iterator[None]:
    try:
        yield
    except ssl.SSLError:
        raise StartError(f"{key}: {path} is not such a file in PEM, or its password is another") from None
    except OSError as error:
        raise StartError(f"{key}: {path}: {error.strerror}") from None
