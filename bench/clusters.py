"""Clusters of three brokers as peers: Ottla with a ZooKeeper, Apache Kafka with its own quorum (KRaft).

A cluster is a Peer whose processes are those of all its servers, the ZooKeeper included: what KRaft does
inside of a broker is counted there, too. ZooKeeper is the one among PySpark's jars.
"""

import contextlib
import importlib.util
import os
import random
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psutil
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.apache import ApacheKafka, new_cluster_id
from bench.servers import HOST, Ottla, Peer, PeerError
from bench.wire_cluster import quorum_leader

BROKERS = 3
SESSION_S = 4.0
SETTLE_S = 120.0
TICK_MS = 500
SETTINGS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "log.segment.delete.delay.ms": "1000",
}
_OTTLA = {"zookeeper.session.timeout.ms": str(int(SESSION_S * 1000))}
_APACHE = {
    "broker.session.timeout.ms": str(int(SESSION_S * 1000)),
    "broker.heartbeat.interval.ms": str(int(SESSION_S * 250)),
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}
_ZOOKEEPER = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_ZOOKEEPER_JARS = (
    "zookeeper-", "netty-", "slf4j-api", "log4j-", "metrics-core", "snappy-java", "commons-cli",
)  # fmt: skip


def ports(count: int) -> list[int]:
    """Free ones that no outgoing connection is given while their server is down."""
    found: list[int] = []
    for port in random.sample(range(20_000, 32_000), 1_000):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((HOST, port))
            found.append(port)
        if len(found) == count:
            return found
    raise PeerError("there are no free ports")


class ZooKeeper(Peer):
    name = "ZooKeeper"

    def command(self, folder: str) -> list[str]:
        spec = importlib.util.find_spec("pyspark")
        places = (spec.submodule_search_locations if spec else None) or []
        jars = [os.path.join(place, "jars") for place in places]
        found = [
            os.path.join(place, name)
            for place in jars
            for name in sorted(os.listdir(place))
            if name.startswith(_ZOOKEEPER_JARS)
        ]
        if not found:
            raise PeerError("no PySpark beside this interpreter, whose jars have a ZooKeeper (make setup)")
        config = os.path.join(folder, "zoo.cfg")
        with open(config, "w") as out:
            out.write(
                f"tickTime={TICK_MS}\ndataDir={folder}/data\nclientPort={self.port}\nclientPortAddress={HOST}\n"
                "maxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=ruok\n"
            )
        options = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        return ["java", *options, "-cp", os.pathsep.join(found), _ZOOKEEPER, config]

    def wait_ready(self) -> None:
        deadline = time.monotonic() + self.ready_s
        while time.monotonic() < deadline:
            self.check_alive()
            with contextlib.suppress(OSError), socket.create_connection((HOST, self.port), 2.0) as sock:
                sock.sendall(b"ruok")
                if sock.recv(16) == b"imok":
                    return
            time.sleep(0.05)
        raise PeerError("ZooKeeper was not ready in time")


class OttlaNode(Ottla):
    def __init__(self, number: int, port: int, zookeeper: str, settings: tuple[str, ...]) -> None:
        super().__init__(settings, port)
        self.number, self._zookeeper = number, zookeeper

    def command(self, folder: str) -> list[str]:
        return [*super().command(folder), "--zookeeper", self._zookeeper, "--id", str(self.number)]


class Cluster(Peer):
    """`nodes[0]` is the broker of id 1, and so on. Topics have three replicas unless told otherwise."""

    def __init__(self, name: str, nodes: Sequence[Peer], keeper: Peer | None) -> None:
        super().__init__()
        self.name, self.nodes, self.keeper = name, list(nodes), keeper

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self.nodes)

    @property
    def _servers(self) -> list[Peer]:
        return [*([self.keeper] if self.keeper else []), *self.nodes]

    def prepare(self) -> None:
        for server in self._servers:
            server.prepare()

    def start(self) -> None:
        if self.keeper:
            self.keeper.start()
            self.keeper.wait_ready()
        for node in self.nodes:
            node.start()

    def wait_ready(self) -> None:
        self._wait(lambda: len(self.metadata().brokers) == len(self.nodes), self.ready_s, "was not ready")

    def stop(self) -> None:
        """Killed, brokers first: nobody reads what they would keep."""
        for server in reversed(self._servers):
            server.kill()
            server.stop()

    def close(self) -> None:
        for server in self._servers:
            server.close()

    def check_alive(self) -> None:
        for server in self._servers:
            server.check_alive()

    def _processes(self) -> list[psutil.Process]:
        return [process for server in self._servers for process in server._processes()]

    def create_topic(
        self, topic: str, config: dict[str, str] | None = None, partitions: int = 1, replicas: int = BROKERS
    ) -> None:
        admin = self._admin()
        wanted = NewTopic(topic, num_partitions=partitions, replication_factor=replicas, config=config or {})
        try:
            admin.create_topics([wanted], operation_timeout=30, request_timeout=60)[topic].result(70)
        except TimeoutError as error:
            raise PeerError(f"{self.name} did not answer CreateTopics") from error
        except KafkaException as error:
            raise PeerError(f"{self.name} did not create a topic: {error.args[0].str()}") from error
        self.wait_settled()

    # -- what it says of itself --

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def metadata(self) -> Any:
        return self._admin().list_topics(timeout=10)

    def leaders(self, topic: str) -> dict[int, int]:
        """By partition."""
        return {number: one.leader for number, one in self.metadata().topics[topic].partitions.items()}

    def controller(self) -> int:
        """The broker that decides; -1 while there is none."""
        if self.keeper:
            return int(self.metadata().controller_id)
        return quorum_leader(HOST, self.nodes[0].port)

    def is_settled(self) -> bool:
        """Every broker is there, and every replica in sync."""
        said = self.metadata()
        return len(said.brokers) == len(self.nodes) and all(
            partition.leader >= 0 and len(partition.isrs) == len(partition.replicas)
            for topic in said.topics.values()
            for partition in topic.partitions.values()
        )

    def wait_settled(self, patience_s: float = SETTLE_S) -> None:
        self._wait(self.is_settled, patience_s, "did not settle")

    def _wait(self, is_reached: Callable[[], bool], patience_s: float, what: str) -> None:
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            self.check_alive()
            with contextlib.suppress(KafkaException):
                if is_reached():
                    return
            time.sleep(0.05)
        raise PeerError(f"{self.name} {what} in {patience_s:.0f} s")


def ottla_cluster(broker: Ottla, settings: dict[str, str], count: int = BROKERS) -> Cluster:
    keeper, *own = ports(1 + count)
    given = (*(f"{key}={value}" for key, value in (settings | _OTTLA).items()), *broker.settings)
    nodes = [OttlaNode(n, port, f"{HOST}:{keeper}/ottla", given) for n, port in enumerate(own, 1)]
    return Cluster(f"{broker.name}, {count} broker{'s' if count > 1 else ''}", nodes, ZooKeeper(keeper))


def _apache(broker: ApacheKafka, settings: dict[str, str]) -> Cluster:
    found = ports(2 * BROKERS)
    own, quorum = found[:BROKERS], found[BROKERS:]
    cluster_id = new_cluster_id()
    voters = ",".join(f"{n}@{HOST}:{port}" for n, port in enumerate(quorum, 1))
    nodes = [
        ApacheKafka(
            {
                **settings,
                **_APACHE,
                "node.id": str(n + 1),
                "controller.quorum.voters": voters,
                "listeners": f"PLAINTEXT://{HOST}:{own[n]},CONTROLLER://{HOST}:{quorum[n]}",
            },
            cluster_id,
            own[n],
        )
        for n in range(BROKERS)
    ]
    return Cluster(f"{broker.name}, {BROKERS} brokers", nodes, None)


@contextlib.contextmanager
def clusters_of(brokers: list[Peer], settings: dict[str, str] | None = None) -> Iterator[list[Cluster]]:
    """A cluster for each broker, of its kind and with its settings."""
    made: list[Cluster] = []
    try:
        for broker in brokers:
            if isinstance(broker, Ottla):
                made.append(ottla_cluster(broker, SETTINGS | (settings or {})))
            elif isinstance(broker, ApacheKafka):
                made.append(_apache(broker, SETTINGS | (settings or {})))
        yield made
    finally:
        for cluster in made:
            cluster.close()
