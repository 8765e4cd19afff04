"""A cluster as one user may see it: everything that pages read.

Clients connect when first needed, and are kept. Each answer is kept for a moment, so that people who look at
the same page do not multiply what brokers are asked.
"""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from ottla.base.command_error import CommandError
from ottla.client.admin import groups as descriptions
from ottla.client.admin.groups import Group
from ottla.client.admin.requests import BrokerPool, Cluster
from ottla.client.librdkafka import connections
from ottla.client.librdkafka.errors import errors_explained
from ottla.client.properties import ClientProperties
from ottla.console.cluster import reassignments, settings
from ottla.console.cluster.kept import Kept
from ottla.console.cluster.measurement import Measurement, Measuring
from ottla.console.cluster.offsets import Offsets, starts_and_ends
from ottla.console.cluster.reassignments import Reassignment
from ottla.console.cluster.sampler import Sampler
from ottla.console.cluster.settings import Setting
from ottla.console.cluster.snapshot import Snapshot, Topic, snapshot_of

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

T = TypeVar("T")
SHAPE_S = 2.0  # for how long who leads what is kept
MOMENT_S = 1.0  # the same of everything that a single page asks for
METADATA_S = 4.0
FIRST_S = 0.12  # a page that comes before the first measurement waits so long for it


class ClusterView:
    """`cluster` asks what confluent-kafka cannot ask."""

    def __init__(self, where: ClientProperties) -> None:
        self.where = where
        self._kept = Kept()
        self._lock = threading.Lock()
        self._is_closed = False
        self._admin: AdminClient | None = None
        self._pool = BrokerPool(where)
        self.cluster = Cluster(where, self._pool)
        self._sampler = Sampler(self.snapshot, Measuring(lambda: self.admin, self.cluster))
        self.history = self._sampler.history

    @property
    def admin(self) -> "AdminClient":
        """Safe in several threads. CommandError: nobody answers, or not to us."""
        with self._lock:
            if self._is_closed:
                raise CommandError("the session is over")
            if self._admin is None:
                self._admin = connections.admin(self.where)
            return self._admin

    # -- what there is ---------------------------------------------------------------------------------------

    def snapshot(self, having: str | None = None) -> Snapshot:
        """Brokers, topics, partitions: now, or a moment ago; now, if it lacks a topic it should have."""
        kept = self._kept.get("snapshot", SHAPE_S, self._snapshot)
        if having is None or having in kept.topics:
            return kept
        self._kept.forget("snapshot")
        return self._kept.get("snapshot", SHAPE_S, self._snapshot)

    def measured(self, wait_s: float = FIRST_S) -> Measurement | None:
        """Sizes, offsets, groups: as they were measured last; None before the first time."""
        return self._sampler.last(wait_s)

    def offsets(self, topic: Topic) -> tuple[Offsets, Offsets]:
        """Where the partitions of a topic begin and end, now."""
        return starts_and_ends(self.cluster, [topic])[:2]

    def groups(self, names: list[str]) -> list[Group]:
        """Those groups, now. Who is not there is dead, and has no offsets."""
        return self._kept.get(("groups", *names), MOMENT_S, lambda: descriptions.described(self.admin, names))

    def settings(self, kind: int, name: str) -> list[Setting]:
        return self._kept.get(
            ("settings", kind, name), MOMENT_S, lambda: settings.described(self.cluster, kind, name)
        )

    def reassignments(self) -> list[Reassignment]:
        return self._kept.get("reassignments", MOMENT_S, lambda: reassignments.reassignments(self.cluster))

    def kept(self, key: str, seconds: float, ask: Callable[[], T]) -> T:
        """Whatever else a page asks for, kept for a moment."""
        return self._kept.get(("page", key), seconds, ask)

    # -- its life --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to measure, before anybody looks."""
        self._sampler.last(0.0)

    def changed(self) -> None:
        """To be called after a change, whose author wants to see it."""
        self._kept.forget()
        self._sampler.soon()

    def close(self) -> None:
        self._sampler.stop()
        self._pool.close()
        with self._lock:
            self._admin, self._is_closed = None, True

    def _snapshot(self) -> Snapshot:
        try:
            with errors_explained("the cluster does not answer"):
                return snapshot_of(self.admin.list_topics(timeout=METADATA_S))
        except CommandError:
            connections.probe(self.where)  # says what is wrong in better words, if nobody is there
            raise
