"""Ctrl-C and SIGTERM: how commands end in good order, and what they exit with then."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTED = 130


@contextmanager
def stopping() -> Iterator[threading.Event]:
    """Ctrl-C and SIGTERM set the event, so that a command ends between two records, never within one."""
    stopped = threading.Event()
    before = {
        number: signal.signal(number, lambda *_: stopped.set()) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def is_interrupt(error: BaseException) -> bool:
    """A Ctrl-C; at the wrong moment it comes out of confluent-kafka as the cause of a SystemError."""
    cause = error.__cause__ if isinstance(error, SystemError) else error
    return isinstance(cause, KeyboardInterrupt)
