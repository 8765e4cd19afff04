"""File descriptors: how many there are, how many of them connections may take, and who hung up.

Logs and connections share one limit. A log that finds no descriptor refuses a request that a client was
promised; a connection that finds none only comes back later. So connections are held back first.
"""

import logging
import resource
import select
from collections.abc import Iterable

log = logging.getLogger(__name__)

KEPT_FOR_LOGS_MIN = 64
KEPT_FOR_LOGS_SHARE = 3  # one in so many


def raise_limit() -> None:
    """Let this process open as many files as the system allows it to."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError) as error:
        log.warning("the limit of %d open files could not be raised: %s", soft, error)


def connections_max() -> int | None:
    """How many connections leave enough for the logs; None if there is no limit."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == resource.RLIM_INFINITY:
        return None
    return max(soft - max(soft // KEPT_FOR_LOGS_SHARE, KEPT_FOR_LOGS_MIN), 1)


def hung_up(fds: Iterable[int]) -> set[int]:
    """Those sockets whose other end has closed, found without reading from them."""
    poller = select.poll()
    for fd in fds:
        poller.register(fd, getattr(select, "POLLRDHUP", 0))
    return {fd for fd, _event in poller.poll(0)}
