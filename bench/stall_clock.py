"""`ottla`, with a stall meter that counts processor time of the loop's thread and nothing else.

On a machine that others use, most of what everybody waits for is a processor. What is left without that is
what the broker computes; what it waits for, a disk or a lock, is not in it.
"""

import sys
import time

from ottla.cli import main
from ottla.shell.clock import Clock
from ottla.shell.connection import Connection
from ottla.shell.stalls import Stalls

_serve, _note_request = Connection._serve, Stalls.note_request
_begun_us = [0]


def _cpu_us() -> int:
    return time.thread_time_ns() // 1_000


def _measured(connection: Connection, begun_ns: int) -> None:
    """Requests are measured by a clock that tells the time, too, and is left alone."""
    _begun_us.append(_cpu_us())
    try:
        _serve(connection, begun_ns)
    finally:
        _begun_us.pop()


def _noted(stalls: Stalls, frame: memoryview, peer: str, _spent_us: int) -> None:
    if (spent_us := _cpu_us() - _begun_us[-1]) > stalls.limit_us:
        _note_request(stalls, frame, peer, spent_us)


if __name__ == "__main__":
    Clock.elapsed_us = lambda _clock: _cpu_us()  # type: ignore[method-assign]
    Connection._serve = _measured  # type: ignore[method-assign]
    Stalls.note_request = _noted  # type: ignore[method-assign]
    sys.argv[0] = "ottla"
    main()
