"""A cluster of real processes on one real ZooKeeper, and everything that can be done to it."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from tests.cluster.namespaces import Network
from tests.cluster.zookeeper import Ensemble
from tests.support.ports import free_ports
from tests.support.processes import START_S, OttlaProcess
from tests.support.waiting import wait_for

SESSION_MS = 4_000
SESSION_S = SESSION_MS / 1000
LAG_S = 4.0
QUIET = {"log_level": 0}
SETTINGS = {
    "zookeeper.session.timeout.ms": str(SESSION_MS),
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "num.partitions": "3",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "3",
    "group.initial.rebalance.delay.ms": "0",
    "replica.lag.time.max.ms": str(int(LAG_S * 1000)),
    "log.segment.bytes": str(8 << 20),
}


class RealBroker(OttlaProcess):
    def __init__(self, id: int, port: int, folder: Path, zookeeper: str, settings: Mapping[str, str]) -> None:
        super().__init__(folder, port, settings)
        self.id = id
        self.data = [folder / "data"]
        self.prefix: list[str] = []  # a command that runs the broker's, such as `ip netns exec`
        self.zookeeper = zookeeper  # '' for a broker of its own

    def command(self) -> list[str]:
        zookeeper = ["--zookeeper", self.zookeeper] if self.zookeeper else []
        own = ["--id", str(self.id), *zookeeper, "--data", ",".join(map(str, self.data))]
        return [*self.prefix, *super().command(), *own]

    def stop(self) -> float:
        """A clean stop; how long it took."""
        began = time.monotonic()
        assert super().stop() == 0, self.log[-3000:]
        return time.monotonic() - began


class RealCluster:
    broker_type: type[RealBroker] = RealBroker

    def __init__(
        self,
        folder: Path,
        brokers: int = 3,
        zookeepers: int = 1,
        settings: Mapping[str, str] | None = None,
        network: Network | None = None,
        tick_ms: int = 500,
        zookeeper: Ensemble | None = None,
    ) -> None:
        self.folder = folder
        self._network = network
        host = network.keeper if network else "127.0.0.1"
        self.zookeeper = zookeeper or Ensemble(folder, zookeepers, tick_ms, host)
        self.settings = SETTINGS | dict(settings or {})
        self.brokers: dict[int, RealBroker] = {}
        for port in free_ports(brokers):
            self.add(port)

    def add(self, port: int = 0) -> RealBroker:
        id = len(self.brokers) + 1
        made = self.broker_type(
            id, port or free_ports(1)[0], self.folder / f"broker-{id}", f"{self.zookeeper.hosts}/ottla",
            self.settings,
        )  # fmt: skip
        if self._network is not None:
            made.host, made.prefix = self._network.address(id), self._network.prefix(id)
        self.brokers[id] = made
        return made

    @property
    def bootstrap(self) -> str:
        return ",".join(one.address for one in self.brokers.values())

    @property
    def pids(self) -> list[int]:
        return [one.process.pid for one in self.brokers.values()]

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, **QUIET})

    def start(self) -> None:
        self.zookeeper.start()
        self.start_brokers()

    def start_brokers(self) -> None:
        for one in self.brokers.values():
            one.launch()
        for one in self.brokers.values():
            one.wait_ready()
        self.wait_settled()

    def stop(self) -> None:
        for one in self.brokers.values():
            if one.is_running:
                with contextlib.suppress(ProcessLookupError):
                    one.resume()
                one.kill()
        self.zookeeper.stop()

    def restore(self) -> None:
        """All brokers are there and in sync."""
        for broker in self.brokers.values():
            if not broker.is_running:
                broker.start()
        self.wait_settled()

    # -- what the cluster says of itself --

    def metadata(self, address: str | None = None) -> Any:
        """As one broker says, any of them if none is named; None if it does not answer."""
        try:
            client = AdminClient({"bootstrap.servers": address or self.bootstrap, **QUIET})
            return client.list_topics(timeout=5)
        except KafkaException:
            return None

    def controller(self) -> int:
        def controller() -> int:
            said = self.metadata()
            return said.controller_id if said is not None and said.controller_id in said.brokers else 0

        return wait_for(controller, START_S, "there is a controller")

    def leader(self, topic: str, partition: int = 0) -> int:
        def leader() -> int:
            said = self.metadata()
            partitions = said.topics[topic].partitions if said is not None and topic in said.topics else {}
            return max(partitions[partition].leader, 0) if partition in partitions else 0

        return wait_for(leader, START_S, f"{topic}-{partition} has a leader")

    def leaders(self, topic: str, address: str | None = None) -> set[int]:
        """Of all its partitions, as these brokers say; -1 where none is known."""
        said = self.metadata(address)
        return {one.leader for one in said.topics[topic].partitions.values()} if said is not None else {-1}

    def is_settled(self) -> bool:
        """All running brokers say that all of them are there, and every replica on them is in sync."""
        running = {one.id for one in self.brokers.values() if one.is_running}
        return all(self._is_settled(self.metadata(self.brokers[id].address), running) for id in running)

    @staticmethod
    def _is_settled(said: Any, running: set[int]) -> bool:
        if said is None or set(said.brokers) != running or said.controller_id not in running:
            return False
        return all(
            partition.leader in running and set(partition.isrs) >= set(partition.replicas) & running
            for topic in said.topics.values()
            for partition in topic.partitions.values()
        )

    def wait_settled(self, within_s: float = START_S) -> None:
        wait_for(self.is_settled, within_s, f"the cluster has settled; {self.describe()}")

    def describe(self) -> str:
        said = self.metadata()
        if said is None:
            return "nobody answers"
        return f"brokers {sorted(said.brokers)}, controller {said.controller_id}, " + ", ".join(
            f"{name}-{number}: leader {partition.leader} isr {partition.isrs}"
            for name, topic in sorted(said.topics.items())
            for number, partition in sorted(topic.partitions.items())
        )

    def create_topic(self, name: str, partitions: int = 3, replicas: int = 3, **config: str) -> str:
        new = NewTopic(
            name, partitions, replicas, config={key.replace("_", "."): value for key, value in config.items()}
        )
        client = self.admin()  # it must live as long as the request

        def is_created() -> bool:
            """Sessions may end some time after ZooKeeper is back: then brokers are away for a moment."""
            try:
                client.create_topics([new], operation_timeout=20)[name].result(30)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.INVALID_REPLICATION_FACTOR:
                    raise
                return False
            return True

        wait_for(is_created, START_S, f"{name} is created")
        return name

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """What the brokers said, where a test fails."""
        try:
            yield
        except BaseException:
            for one in self.brokers.values():
                print(f"--- broker {one.id}, running: {one.is_running}\n{one.log[-4000:]}")
            raise


def restart_rolling(
    cluster: RealCluster, between: Callable[[], object] = lambda: None, within_s: float = START_S
) -> None:
    """Each step has so much time."""
    for one in cluster.brokers.values():
        one.stop()
        one.start(within_s)
        cluster.wait_settled(within_s)
        between()


def skip_without(condition: bool, reason: str) -> None:
    if not condition:
        pytest.skip(reason)
