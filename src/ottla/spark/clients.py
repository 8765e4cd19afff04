"""The clients of this process: one per cluster and settings, kept for as long as the process lives.

Spark reuses its Python workers, so a task of the next micro-batch finds its connections open. A worker is
forked from a daemon, and a socket must not be shared between processes: the process id is a part of the key.
"""

import os

from ottla.client import Client
from ottla.spark.options import Where

CLIENTS_MAX = 8

_clients: dict[tuple[int, Where], Client] = {}


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
