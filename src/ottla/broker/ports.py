"""Interfaces between the parts of a broker, and the callbacks they give to each other."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.controller.keeper import Outcome
from ottla.replication.partition import Partition

OnOutcome = Callable[[Outcome, int], None]  # of a write to the keeper; now_ms
OnAnswer = Callable[[Any, int], None]  # the answer, or None if there will be none; now_ms
SendRequest = Callable[[int, str, Any, OnAnswer], object]  # to a broker, on a channel

OnVerified = Callable[[dict[TopicPartition, ErrorCode], int], None]  # what is wrong with which; now_ms
Enter = Callable[[str], None]  # which part of a tick begins; an empty one: none


def unmeasured(_part: str) -> None:
    """An `Enter` where nobody measures how long parts take."""


class Random(Protocol):
    """The source of random ids: the operating system, or a seed in tests."""

    def randbytes(self, count: int, /) -> bytes: ...
    def randrange(self, low: int, high: int, /) -> int: ...


class Disks(Protocol):
    """The disks that hold the logs."""

    def start_syncs(self, now_ms: int) -> None:
        """Start the syncs that are due."""

    def failed(self, error: OSError) -> ErrorCode:
        """A disk failed. Returns the error code for the client."""


class RoleListener(Protocol):
    """The coordinators, which store their state in partitions of internal topics."""

    def on_role(self, partition: Partition, now_ms: int) -> None:
        """This broker became the leader of a partition, or is no longer."""

    def on_committed(self, partition: Partition, now_ms: int) -> None:
        """The high watermark of a partition has moved."""


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """Do these partitions take part in the producer's transaction? With `adds` they do from now on. `then` is
    told once which do not, and why."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    topic_partitions: tuple[TopicPartition, ...]
    adds: bool
    then: OnVerified
    asked_ms: int


class TransactionVerifier(Protocol):
    """Asks the coordinators of transactions, wherever they are."""

    def verify(self, question: Question) -> None:
        """The answer may be there before this returns."""
