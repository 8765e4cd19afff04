"""Work on the disk for which no request waits, and which may take long: files removed, checkpoints synced.

A chore is handed out (`OnChore`), run by a worker, and given back to whoever owns the logs (`done`). Names
are the owner's affair: a worker writes aside, so that what comes late takes the place of nothing newer.
"""

from collections.abc import Callable
from typing import Protocol, TypeAlias


class Chore(Protocol):
    def run(self) -> None:
        """In a worker: it touches nothing but the disk."""

    def done(self, error: OSError | None) -> None:
        """By the owner of the logs."""


OnChore: TypeAlias = Callable[[Chore], None]


def run_at_once(chore: Chore) -> None:
    """For who may wait."""
    try:
        chore.run()
    except OSError as error:
        chore.done(error)
    else:
        chore.done(None)
