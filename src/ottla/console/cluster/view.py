"""A cluster as one user may see it: everything that pages read.

Clients of confluent-kafka connect when first needed, and are kept. Each answer is kept for a moment, so that
people who look at the same page do not multiply what brokers are asked.
"""

import threading
from typing import TYPE_CHECKING

from ottla.client.librdkafka import cluster, connections
from ottla.client.properties import ClientProperties
from ottla.console.cluster.kept import Kept
from ottla.console.cluster.snapshot import Snapshot, snapshot_of

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

SHAPE_S = 2.0  # for how long who leads what is kept


class ClusterView:
    def __init__(self, where: ClientProperties) -> None:
        self.where = where
        self._kept = Kept()
        self._lock = threading.Lock()
        self._admin: AdminClient | None = None

    @property
    def admin(self) -> "AdminClient":
        """Safe in several threads. CommandError: nobody answers, or not to us."""
        with self._lock:
            if self._admin is None:
                self._admin = connections.admin(self.where)
            return self._admin

    def snapshot(self) -> Snapshot:
        return self._kept.get("snapshot", SHAPE_S, lambda: snapshot_of(cluster.metadata(self.admin)))

    def changed(self) -> None:
        """To be called after a change, whose author wants to see it."""
        self._kept.forget()

    def close(self) -> None:
        with self._lock:
            self._admin = None
