"""A folder with all that a broker with TLS and SASL needs, and its first users: `ottla secure init`, and in
part `Broker(secure=True)`.

    ca.pem, ca.key         the authority; with its key more certificates can be signed
    broker.pem client.pem  a private key and its certificate each
    broker.properties      a listener with SASL_SSL and SCRAM, an authorizer, and who may do everything
    client.properties      for clients, in Kafka's words: the user `admin`
    data                   the broker's; the users' credentials are in its keeper, salted

Rules: nobody else may read any of it, nothing that is there is overwritten, and if something fails nothing
is left behind.
"""

import datetime
import os
import secrets
import shutil
import socket
from collections.abc import Iterable, Mapping, Sequence

from ottla.controller.keeper import NodeChanged, Operation
from ottla.log.folders import KEEPER_DB, LOCK
from ottla.security import credentials
from ottla.security.credentials import ScramCredential, ScramMechanism
from ottla.shell.keeper_embedded import EmbeddedKeeper
from ottla.shell.keeper_visit import scram_writes
from ottla.shell.lock import DirectoryLock

ADMIN, BROKER, CLIENT = "admin", "broker", "client"
LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
DAYS = 825
LISTENER = "SASL_SSL"
MECHANISM = ScramMechanism.SCRAM_SHA_512
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
LOGIN_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
PASSWORD_BYTES = 24
SALT_BYTES = 32


def create(path: str, hosts: Sequence[str], listen: str, advertised: str) -> None:
    """Make all of it. `hosts` are in the certificate; addresses are HOST:PORT. FileExistsError: there is
    something at `path` already."""
    is_new = not os.path.lexists(path)
    os.makedirs(path, mode=0o700, exist_ok=True)  # FileExistsError: it is a file
    if os.listdir(path):
        raise FileExistsError(path)
    os.chmod(path, 0o700)
    try:
        _fill(os.path.abspath(path), hosts, listen, advertised)
    except BaseException:
        for name in os.listdir(path):
            _remove(os.path.join(path, name))
        if is_new:
            os.rmdir(path)
        raise


def _fill(path: str, hosts: Sequence[str], listen: str, advertised: str) -> None:
    passwords = {user: secrets.token_urlsafe(PASSWORD_BYTES) for user in (ADMIN, BROKER)}
    data = os.path.join(path, "data")
    os.mkdir(data, 0o700)
    add_users(data, passwords)
    os.chmod(os.path.join(data, LOCK), 0o600)
    certify(path, hosts)
    broker = {
        "listeners": f"{LISTENER}://{listen}",
        "advertised.listeners": f"{LISTENER}://{advertised}",
        "log.dirs": data,
        **broker_settings(path, passwords[BROKER]),
    }
    _write_properties(os.path.join(path, "broker.properties"), broker)
    client = {"bootstrap.servers": advertised, **client_settings(path, passwords[ADMIN])}
    _write_properties(os.path.join(path, "client.properties"), client)


def broker_settings(path: str, password: str) -> dict[str, str]:
    """Broker properties that use the certificates at `path`; the password is that of BROKER, as which
    brokers speak to each other."""
    own_login = f"listener.name.{LISTENER.lower()}.{MECHANISM.title.lower()}.sasl.jaas.config"
    return {
        "inter.broker.listener.name": LISTENER,
        "sasl.enabled.mechanisms": MECHANISM.title,
        "sasl.mechanism.inter.broker.protocol": MECHANISM.title,
        own_login: _jaas(BROKER, password),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": os.path.join(path, f"{BROKER}.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": os.path.join(path, "ca.pem"),
        "authorizer.class.name": AUTHORIZER,
        "super.users": f"User:{ADMIN};User:{BROKER}",
    }


def client_settings(path: str, password: str) -> dict[str, str]:
    """Client properties, in Kafka's words, of ADMIN."""
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": MECHANISM.title,
        "sasl.jaas.config": _jaas(ADMIN, password),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": os.path.join(path, "ca.pem"),
    }


def _jaas(user: str, password: str) -> str:
    return f'{LOGIN_MODULE} required username="{user}" password="{password}";'


def certify(path: str, hosts: Sequence[str]) -> None:
    """Write an authority, a certificate for a broker at these hosts and on this one, and one for a client."""
    from ottla.shell.certificate_authority import Authority

    authority = Authority(datetime.datetime.now(datetime.UTC))
    names = list(dict.fromkeys([*hosts, socket.gethostname(), *LOCAL_HOSTS]))
    _write(os.path.join(path, "ca.pem"), authority.certificate)
    _write(os.path.join(path, "ca.key"), authority.key)
    for name, pair in (
        (BROKER, authority.sign(BROKER, names, DAYS)),
        (CLIENT, authority.sign(CLIENT, (), DAYS)),
    ):
        _write(os.path.join(path, f"{name}.pem"), pair.key + pair.certificate)


def add_users(data: str, passwords: Mapping[str, str]) -> None:
    """Write credentials straight into the keeper of a data folder that no broker uses, without an event loop:
    whoever starts a broker for a test may have one. StartError: a broker uses it."""
    os.makedirs(data, exist_ok=True)
    lock = DirectoryLock(data)
    lock.take()
    try:
        keeper = EmbeddedKeeper(os.path.join(data, KEEPER_DB))
        try:
            nodes = {node.path: node for node in keeper.load()}
            keeper.write(user_writes(nodes, passwords))
        finally:
            keeper.close()
    finally:
        lock.release()


def user_writes(nodes: Mapping[str, NodeChanged], passwords: Mapping[str, str]) -> list[Operation]:
    """What makes users known to a keeper that has these nodes."""
    return [
        operation
        for user, password in passwords.items()
        for operation in scram_writes(nodes, user, {MECHANISM: _credential(password)})
    ]


def _credential(password: str) -> ScramCredential:
    salt = credentials.salt_of(secrets.token_bytes(SALT_BYTES))
    salted = credentials.salted_password(MECHANISM, password, salt, credentials.ITERATIONS)
    return credentials.credential_of(MECHANISM, salt, salted, credentials.ITERATIONS)


def _write_properties(path: str, properties: Mapping[str, str]) -> None:
    _write(path, "".join(_property_lines(properties)).encode())


def _property_lines(properties: Mapping[str, str]) -> Iterable[str]:
    """As Java reads them, which takes the bytes of a file for Latin-1."""
    for name, value in properties.items():
        encoded = value.replace("\\", "\\\\").encode("utf-16-be")
        units = (int.from_bytes(encoded[at : at + 2]) for at in range(0, len(encoded), 2))
        escaped = "".join(chr(unit) if 32 <= unit < 127 else f"\\u{unit:04x}" for unit in units)
        yield f"{name}={escaped}\n"


def _write(path: str, content: bytes) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)


def _remove(path: str) -> None:
    if os.path.isdir(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)
