"""What the parts of a broker are given from outside: chance, whom to ask for what, and whom to call back."""

from collections.abc import Callable
from typing import Any, Protocol

from ottla.base.errors import ErrorCode
from ottla.controller.keeper import Outcome
from ottla.replication.partition import Partition

OnOutcome = Callable[[Outcome, int], None]  # of a write to the keeper; now_ms
OnAnswer = Callable[[Any, int], None]  # the answer, or None if there will be none; now_ms
SendRequest = Callable[[int, str, Any, OnAnswer], object]  # to a broker, on a channel


class Random(Protocol):
    """Where ids come from: the operating system, or a seed."""

    def randbytes(self, count: int, /) -> bytes: ...
    def randrange(self, low: int, high: int, /) -> int: ...


class Disks(Protocol):
    """Where logs are kept."""

    def start_syncs(self, now_ms: int) -> None:
        """Have synced what is due."""

    def failed(self, error: OSError) -> ErrorCode:
        """The disk refused something; the code that tells a client."""


class Coordinators(Protocol):
    """Those who store what they know in partitions of internal topics."""

    def on_role(self, partition: Partition, now_ms: int) -> None:
        """This broker leads a partition, or not, by the latest state."""

    def on_committed(self, partition: Partition, now_ms: int) -> None:
        """The high watermark of a partition has moved."""
