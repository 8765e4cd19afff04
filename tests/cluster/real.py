"""A cluster of real processes on one real ZooKeeper, and everything that can be done to it."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from tests.cluster.namespaces import Network
from tests.cluster.zookeeper import Ensemble, die_with_parent, wait_for
from tests.ports import free_ports

SESSION_MS = 4_000
SESSION_S = SESSION_MS / 1000
LAG_S = 4.0
START_S = 60.0
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


class RealBroker:
    def __init__(self, id: int, port: int, folder: Path, zookeeper: str, settings: Mapping[str, str]) -> None:
        self.id, self.port, self.folder = id, port, folder
        self.data = [folder / "data"]
        self.prefix: list[str] = []  # a command that runs the broker's, such as `ip netns exec`
        self.host = "127.0.0.1"
        self.zookeeper = zookeeper  # '' for a broker of its own
        self._settings = dict(settings)
        self._process: subprocess.Popen[str] | None = None

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def process(self) -> "subprocess.Popen[str]":
        assert self._process is not None
        return self._process

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        path = self.folder / "broker.log"
        return path.read_text() if path.exists() else ""

    def launch(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        settings = [part for name, value in self._settings.items() for part in ("--set", f"{name}={value}")]
        command = [
            *self.prefix, sys.executable, "-m", "ottla.cli", "start",
            *(["--zookeeper", self.zookeeper] if self.zookeeper else []), "--id", str(self.id),
            "--listen", self.address, "--data", ",".join(map(str, self.data)),
            "--log-level", "info", *settings,
        ]  # fmt: skip
        with open(self.folder / "broker.log", "a") as said, open(self._ready, "w") as ready:
            self._process = subprocess.Popen(
                command, stdout=ready, stderr=said, text=True, preexec_fn=die_with_parent
            )

    @property
    def _ready(self) -> Path:
        return self.folder / "ready"

    def wait_ready(self) -> None:
        deadline = time.monotonic() + START_S
        while "is ready" not in self._ready.read_text():
            if not self.is_running or time.monotonic() > deadline:
                pytest.fail(f"broker {self.id} did not start\n{self.log[-3000:]}")
            time.sleep(0.02)

    def start(self) -> None:
        self.launch()
        self.wait_ready()

    def signal(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        """kill -9"""
        self.process.kill()
        self.wait_ended(START_S)

    def pause(self) -> None:
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def stop(self) -> float:
        """A clean stop; how long it took."""
        began = time.monotonic()
        self.process.terminate()
        assert self.wait_ended(START_S) == 0, self.log[-3000:]
        return time.monotonic() - began

    def wait_ended(self, within_s: float) -> int:
        return self.process.wait(within_s)


class RealCluster:
    def __init__(
        self,
        folder: Path,
        brokers: int = 3,
        zookeepers: int = 1,
        settings: Mapping[str, str] | None = None,
        network: Network | None = None,
        tick_ms: int = 500,
    ) -> None:
        self.folder = folder
        self._network = network
        host = network.keeper if network else "127.0.0.1"
        self.zookeeper = Ensemble(folder, zookeepers, tick_ms, host)
        self.settings = SETTINGS | dict(settings or {})
        self.brokers: dict[int, RealBroker] = {}
        for port in free_ports(brokers):
            self.add(port)

    def add(self, port: int = 0) -> RealBroker:
        id = len(self.brokers) + 1
        made = RealBroker(
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

    # -- what the cluster says of itself --

    def metadata(self, address: str | None = None) -> Any:
        """As one broker says, any of them if none is named; None if it does not answer."""
        try:
            client = AdminClient({"bootstrap.servers": address or self.bootstrap, **QUIET})
            return client.list_topics(timeout=5)
        except KafkaException:
            return None

    def controller(self) -> int:
        found: list[int] = []

        def is_found() -> bool:
            said = self.metadata()
            if said is not None and said.controller_id in said.brokers:
                found.append(said.controller_id)
            return bool(found)

        wait_for(is_found, START_S, "there is a controller")
        return found[-1]

    def leader(self, topic: str, partition: int = 0) -> int:
        found: list[int] = []

        def is_found() -> bool:
            said = self.metadata()
            known = said.topics.get(topic) if said is not None else None
            if known is not None and partition in known.partitions and known.partitions[partition].leader > 0:
                found.append(known.partitions[partition].leader)
            return bool(found)

        wait_for(is_found, START_S, f"{topic}-{partition} has a leader")
        return found[-1]

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

    def wait_settled(self, within_s: float = START_S) -> float:
        return wait_for(self.is_settled, within_s, f"the cluster has settled; {self.describe()}")

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


def restart_rolling(cluster: RealCluster, between: Callable[[], object] = lambda: None) -> None:
    for one in cluster.brokers.values():
        one.stop()
        one.start()
        cluster.wait_settled()
        between()


def skip_without(condition: bool, reason: str) -> None:
    if not condition:
        pytest.skip(reason)
