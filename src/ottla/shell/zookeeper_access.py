"""What a client of ZooKeeper shows of itself and demands of ZooKeeper, and the ACLs of the nodes it makes.

ACLs are those of Kafka's `zookeeper.set.acl`: who made a node may do everything with it. Others may read it,
unless it is where secrets are: users' keys, configs of brokers, and the secret by which brokers know each
other.
"""

import importlib.util
import os
import re
import ssl
from dataclasses import dataclass, field

from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from ottla.base.config import ConfigError
from ottla.broker.zookeeper_config import JAAS_FILE, ZooKeeperConfig, check_zookeeper
from ottla.controller.znodes import PEER_SECRET
from ottla.security.jaas import JaasError
from ottla.security.jaas_file import UserAndPassword, zookeeper_credentials
from ottla.security.tls_config import load_tls
from ottla.shell.lock import StartError
from ottla.shell.tls import client_context

_KEY = re.compile(r"(?<![\w./-])ssl\.(?=[a-z])")
PEM = "PEM"
ENDINGS = {".pem": PEM, ".p12": "PKCS12", ".pfx": "PKCS12"}
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
    """As towards other brokers, with settings of its own."""
    checks_host = config.endpoint_identification_algorithm.upper() == "HTTPS"
    keys = _store_type(config.keystore_type, config.keystore_location)
    authorities = _store_type(config.truststore_type, config.truststore_location)
    settings = {
        "ssl.keystore.type": keys,
        "ssl.keystore.location": config.keystore_location,
        # In PEM it is the key that has a password.
        "ssl.key.password" if keys == PEM else "ssl.keystore.password": config.keystore_password,
        "ssl.truststore.type": authorities,
        "ssl.truststore.location": config.truststore_location,
        "ssl.truststore.password": "" if authorities == PEM else config.truststore_password,
        "ssl.enabled.protocols": ",".join(config.versions),
        "ssl.cipher.suites": ",".join(config.cipher_suites),
        "ssl.endpoint.identification.algorithm": "https" if checks_host else "",
    }
    try:
        return client_context(load_tls(settings))
    except ConfigError as error:
        text = str(error).replace("ssl.key.password", "ssl.keystore.password")
        raise StartError(_KEY.sub("zookeeper.ssl.", text)) from None


def _store_type(given: str, location: str) -> str:
    """Where it is not given ZooKeeper goes by the end of the name."""
    return given or ENDINGS.get(os.path.splitext(location)[1].lower(), "JKS")
