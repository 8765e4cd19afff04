"""One process at a time: a lock on a file, which goes with the process that holds it."""

import contextlib
import fcntl
import os
from collections.abc import Iterator

from ottla.base.command_error import CommandError


@contextlib.contextmanager
def exclusive(path: str, *, unwritable: str, held: str) -> Iterator[None]:
    """CommandError `unwritable`, with the reason, if there can be no lock; `held` if another has it."""
    try:
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        lock = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise CommandError(f"{unwritable}: {error.strerror}") from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise CommandError(held) from None
        yield
    finally:
        os.close(lock)
