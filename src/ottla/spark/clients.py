"""The clients of this process: one per cluster and settings, kept for as long as the process lives.

Spark reuses its Python workers, so a task of the next micro-batch finds its connections open. A worker is
forked from a daemon, and a socket must not be shared between processes: the process id is a part of the key.
"""

import os

from ottla.client import Client, ClientError
from ottla.spark import errors
from ottla.spark.options import Where

CLIENTS_MAX = 8

_clients: dict[tuple[int, Where], Client] = {}


def reached(where: Where) -> Client:
    """The same for whoever begins something: a cluster that this process has never reached is most likely
    down, or somewhere else, and is not waited for as long as one that is lost on the way."""
    source = client(where)
    try:
        source.reach(min(where.reach_s, where.timeout_s))
    except ClientError as error:
        if isinstance(error.__cause__, OSError):
            raise errors.unreachable(where.bootstrap, str(error)) from None
        raise
    return source


def client(where: Where) -> Client:
    """The client of this process; of many, those used least recently are closed."""
    key = (os.getpid(), where)
    current = _clients.pop(key, None) or Client(
        where.bootstrap, client_id=where.client_id, timeout_s=where.timeout_s, security=where.security
    )
    _clients[key] = current
    while len(_clients) > CLIENTS_MAX:
        _clients.pop(next(iter(_clients))).close()
    return current
