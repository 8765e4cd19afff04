"""Whether this broker can answer for what it leads, and if not, why.

It cannot while its logs are recovered and while it is not registered, since nobody can reach it; while what
its coordinators store is being read, and while logs wait to be made, since it refuses requests for them;
while it is in doubt whether it still leads; and once it stops, since others are to lead in its place.

That the keeper cannot be reached is no reason. Brokers go on with what they know, and all of them would be
taken out of service at once.

Until the broker is open another thread may own it: then nothing is looked at but how far that has come.
"""

from collections.abc import Mapping
from typing import NamedTuple

from ottla.base.ids import TopicPartition
from ottla.broker.coordinators import Coordinators
from ottla.broker.leadership_proofs import Proofs
from ottla.broker.log_queue import LogQueue
from ottla.controller.image import Image
from ottla.log.store_loader import LoadProgress
from ottla.replication.partition import Partition

RECOVERS = "recovering-logs"
UNREGISTERED = "not-registered"
LOADS = "loading-coordinators"
OPENS = "opening-partitions"
DOUBTS = "leadership-in-doubt"
STOPS = "stopping"
REASONS = (RECOVERS, UNREGISTERED, LOADS, OPENS, DOUBTS, STOPS)


class Reason(NamedTuple):
    """Why a broker is not ready: one of REASONS, and a sentence for people."""

    name: str
    detail: str


class Readiness:
    def __init__(
        self,
        broker_id: int,
        image: Image,
        progress: LoadProgress,
        partitions: Mapping[TopicPartition, Partition],
        log_queue: LogQueue,
        coordinators: Coordinators,
        proofs: Proofs,
    ) -> None:
        self.is_open = False  # the broker has taken up what its keeper and its disks hold
        self.is_stopping = False
        self.progress = progress
        self._broker_id = broker_id
        self._image = image
        self._partitions = partitions
        self._log_queue = log_queue
        self._coordinators = coordinators
        self._proofs = proofs

    def reasons(self) -> list[Reason]:
        """Why this broker is not ready; nothing if it is."""
        reasons = [Reason(STOPS, "The broker stops.")] if self.is_stopping else []
        if not self.is_open:
            return [*reasons, self._before_open()]
        if self._broker_id not in self._image.brokers:
            reasons.append(Reason(UNREGISTERED, "The broker is not registered in its cluster."))
        loading = sum(self._coordinators.loading.values())
        if loading:
            reasons.append(Reason(LOADS, f"Coordinators read {loading} partitions of internal topics."))
        waiting = len(self._log_queue.todo)
        if waiting:
            reasons.append(Reason(OPENS, f"{waiting} partitions wait for their logs to be made."))
        doubtful = self._doubtful()
        if doubtful:
            reasons.append(
                Reason(DOUBTS, f"Whether the broker still leads is in doubt for {doubtful} partitions.")
            )
        return reasons

    def _before_open(self) -> Reason:
        remaining = dict(self.progress.remaining)
        if not remaining:
            return Reason(UNREGISTERED, "The broker has not heard of its cluster from its keeper yet.")
        left = sum(remaining.values())
        return Reason(RECOVERS, f"{self.progress.opened} of {self.progress.opened + left} logs are open.")

    def _doubtful(self) -> int:
        partitions = map(self._partitions.get, self._proofs.in_doubt)
        return sum(partition is not None and partition.is_leader for partition in partitions)
