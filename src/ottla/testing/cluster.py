"""The cluster that `from ottla import Cluster` gives: brokers in one process, on one keeper in memory.

They are real brokers with sockets of their own that replicate to each other, elect leaders and fail over;
only what ZooKeeper would hold is kept in the process. No Java, nothing on disk but the logs.
"""

import os
import shutil
import tempfile
import time
from asyncio import AbstractEventLoop
from collections.abc import Mapping
from functools import partial
from typing import Any, Self

from ottla.broker.config import cluster_defaults
from ottla.shell.embedded import TEMPORARY, EmbeddedBroker
from ottla.shell.keeper_shared import SharedKeeper, SharedTree
from ottla.testing.embedded import (
    Setting,
    create_topic,
    delete_topic,
    librdkafka_settings,
    new_security,
    python_settings,
    texts,
    warn_of_unknown,
)

HOST = "127.0.0.1"
SETTLE_S = 30.0
SESSION_S = 1.0


class Cluster:
    """`with Cluster(brokers=3) as cluster:` serves real clients at `cluster.bootstrap_servers`.

    brokers    how many; their ids are 1, 2, ...
    config     properties of all of them, under Kafka's names
    data       a folder that keeps the records over `stop` and `start`; without it they go to a temporary
               one. The topics are known as long as this object lives.
    secure     with TLS, SASL and an authorizer; the user of `client_config` may do everything
    session_s  how long after `kill` the others forget the broker; others lead in its place long before
    """

    def __init__(
        self,
        brokers: int = 3,
        config: Mapping[str, Setting] | None = None,
        data: str | os.PathLike[str] | None = None,
        session_s: float = SESSION_S,
        secure: bool = False,
    ) -> None:
        if brokers < 1:
            raise ValueError(f"a cluster has brokers, not {brokers}")
        own = {
            **cluster_defaults(brokers),
            "offsets.topic.num.partitions": "8",
            "transaction.state.log.num.partitions": "8",
        }
        self.replication_factor = int(own["default.replication.factor"])
        self.config = TEMPORARY | own | texts(config)
        warn_of_unknown(self.config)
        self._count = brokers
        self._session_s = session_s
        self._kept = None if data is None else os.fspath(data)
        self._data = ""
        self._security = new_security(HOST) if secure else None
        self._tree = self._new_tree()
        self._keepers: dict[int, SharedKeeper] = {}
        self._running: dict[int, EmbeddedBroker] = {}
        self._ports: dict[int, int] = {}

    @property
    def ids(self) -> list[int]:
        return list(range(1, self._count + 1))

    @property
    def brokers(self) -> dict[int, EmbeddedBroker]:
        """Those that run, by their ids."""
        return dict(self._running)

    @property
    def bootstrap_servers(self) -> str:
        """What a client takes as `bootstrap.servers`: all brokers that were ever started."""
        if not self._running:
            raise RuntimeError("the cluster is not running: call start(), or use it in a with statement")
        return ",".join(
            f"{HOST}:{self._ports[broker_id]}" for broker_id in self.ids if broker_id in self._ports
        )

    @property
    def client_config(self) -> dict[str, Any]:
        """What a client of confluent-kafka needs to connect."""
        return librdkafka_settings(self.bootstrap_servers, self._security)

    @property
    def client_arguments(self) -> dict[str, Any]:
        """What a client of aiokafka or kafka-python needs to connect, as keyword arguments."""
        return python_settings(self.bootstrap_servers, self._security)

    def start(self, broker_id: int | None = None) -> Self:
        """Start one broker, or all that do not run; returns when all that run know of each other."""
        for number in self.ids if broker_id is None else [self._checked(broker_id)]:
            if number not in self._running:
                self._start(number)
        self._wait_settled()
        return self

    def stop(self, broker_id: int | None = None) -> None:
        """Stop one broker cleanly, after others have taken over what it leads; or the whole cluster."""
        if broker_id is not None:
            self._taken_out(broker_id).stop()
            return
        while self._running:
            self._running.popitem()[1].stop_at_once()
        if self._kept is None and self._data:
            shutil.rmtree(self._data, ignore_errors=True)
            self._data, self._tree = "", self._new_tree()

    def kill(self, broker_id: int) -> None:
        """End a broker as a crash does. The others notice that it does not listen any more."""
        self._taken_out(broker_id).kill()
        self._keepers[broker_id].abandon(self._session_s)

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replicas: int | None = None,
        config: Mapping[str, Setting] | None = None,
    ) -> str:
        """Create a topic and wait until it can be used."""
        count = self.replication_factor if replicas is None else replicas
        return create_topic(self.client_config, name, partitions, count, config)

    def delete_topic(self, name: str) -> None:
        delete_topic(self.client_config, name)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _checked(self, broker_id: int) -> int:
        if broker_id not in self.ids:
            raise ValueError(f"there is no broker {broker_id}, only {self.ids}")
        return broker_id

    def _taken_out(self, broker_id: int) -> EmbeddedBroker:
        if self._checked(broker_id) not in self._running:
            raise RuntimeError(f"broker {broker_id} is not running")
        return self._running.pop(broker_id)

    def _new_tree(self) -> SharedTree:
        tree = SharedTree()
        if self._security is not None:
            from ottla.shell.secure_folder import user_writes

            tree.prepare(user_writes({}, self._security.passwords))
        return tree

    def _start(self, broker_id: int) -> None:
        if not self._data:
            self._data = self._kept or tempfile.mkdtemp(prefix="ottla-cluster-")
        folder = os.path.join(self._data, f"broker-{broker_id}")
        port = self._ports.get(broker_id, 0)
        own = self._security.broker_config(HOST, port) if self._security else {}
        config = own | self.config | {"broker.id": str(broker_id)}
        broker = EmbeddedBroker(config, folder, port, keeper=partial(self._join, broker_id))
        try:
            broker.start()
        except BaseException:
            self.stop()
            raise
        self._ports[broker_id] = int(broker.bootstrap_servers.rpartition(":")[2])
        self._running[broker_id] = broker

    def _join(self, broker_id: int, loop: AbstractEventLoop) -> SharedKeeper:
        self._keepers[broker_id] = keeper = SharedKeeper(loop, self._tree)
        return keeper

    def _wait_settled(self) -> None:
        deadline = time.monotonic() + SETTLE_S
        while not all(broker.knows(self._running, len(self._running)) for broker in self._running.values()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the brokers did not find each other within {SETTLE_S:.0f} s")
            time.sleep(0.005)
