"""The nodes of users, clients and addresses: where SCRAM credentials and quotas are, as in Kafka.

    /config/users/<user>                      a user: credentials and quotas
    /config/users/<user>/clients/<client id>  a user's client: quotas
    /config/clients/<client id>               a client id, whoever uses it
    /config/ips/<address>

A node is `{"version":1,"config":{key: value}}`. A user's has keys of two kinds: whoever writes one kind keeps
the other. A user's node stays when its last key goes, as others may be below it. In a path a name is
escaped as Kafka's Sanitizer does it; `<default>` stands for all that have no node of their own.
"""

from typing import NamedTuple

from ottla.controller import znodes
from ottla.controller.keeper import Create, Operation, Put

USERS = "/config/users/"
CLIENTS = "/config/clients/"
IPS = "/config/ips/"
FOLDERS = (USERS, CLIENTS, IPS)
_CLIENTS_OF_A_USER = "/clients/"
_DEFAULT_NODE = "<default>"
_RELATIVE = {".", ".."}  # which are no names to ZooKeeper

DEFAULT = ""  # the name, in an Entity, of all that have no node of their own


class Entity(NamedTuple):
    """Whose config it is. None: it is not about users, clients or addresses."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    @property
    def path(self) -> str:
        if self.ip is not None:
            return IPS + node_name(self.ip)
        if self.user is None:
            return CLIENTS + node_name(self.client_id or DEFAULT)
        path = USERS + node_name(self.user)
        return path if self.client_id is None else path + _CLIENTS_OF_A_USER + node_name(self.client_id)


def entity_of(path: str) -> Entity | None:
    """None: it is a folder among these nodes."""
    if path.startswith(IPS):
        return Entity(ip=_name(path.removeprefix(IPS)))
    if path.startswith(CLIENTS):
        return Entity(client_id=_name(path.removeprefix(CLIENTS)))
    user, slash, below = path.removeprefix(USERS).partition("/")
    if not slash:
        return Entity(_name(user))
    kind, slash, client_id = below.partition("/")
    return Entity(_name(user), _name(client_id)) if slash and kind == "clients" else None


def config_of(content: bytes) -> dict[str, str]:
    """A node that others are below may be empty, if ZooKeeper made it for their sake."""
    return dict(znodes.parse(content)["config"]) if content else {}


def write(entity: Entity, values: dict[str, str], version: int) -> list[Operation]:
    """Set all keys of a node, conditional on the version they were read at; -1: there was no node."""
    content = znodes.config_node(values)
    if version < 0:
        return [Create(entity.path, content)]
    return [Put(entity.path, content, version)]


def node_name(name: str) -> str:
    if name == DEFAULT:
        return _DEFAULT_NODE
    from urllib.parse import quote  # few have such nodes

    escaped = quote(name, safe="").replace("~", "%7E")  # Java's URLEncoder, and no + and *
    return escaped.replace(".", "%2E") if escaped in _RELATIVE else escaped


def _name(node: str) -> str:
    from urllib.parse import unquote

    return DEFAULT if node == _DEFAULT_NODE else unquote(node)
