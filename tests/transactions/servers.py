"""Brokers that a test may kill with -9 and start again: Ottla or Apache Kafka, one of them or three.

Their clients always reach them under the same addresses. Everything dies with the test run.
"""

import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from bench import apache
from bench.servers import HOST, PeerError
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from tests.cluster.real import RealBroker, RealCluster
from tests.compat.apache import Node
from tests.kafka_clients.harness import BUGS
from tests.support.ports import free_ports
from tests.support.processes import OttlaProcess, running
from tests.support.waiting import wait_for

CHOSEN = os.environ.get("OTTLA_TRANSACTIONS_SERVER", "ottla")
START_S = 90.0
# Timeouts are looked for often, so that a test need not wait for the default of ten seconds.
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}
CLUSTER = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
}
R = TypeVar("R")


class Brokers(ABC):
    """One broker or three. `ids` are those of the brokers, whether they run or not."""

    ids: list[int]

    @property
    @abstractmethod
    def bootstrap(self) -> str: ...

    @abstractmethod
    def start(self) -> None: ...

    @abstractmethod
    def stop(self) -> None: ...

    @abstractmethod
    def kill(self, broker_id: int) -> None: ...

    @abstractmethod
    def start_again(self, broker_id: int) -> None:
        """It serves when this returns."""

    @property
    def processes(self) -> list[OttlaProcess]:
        """Those whose logs say what is wrong: Ottla's."""
        return []

    def bugs(self) -> list[str]:
        """What only a bug of the broker can write to its log."""
        return [line for process in self.processes for line in process.log.splitlines() if BUGS.search(line)]

    def restart_leader(self, topic: str) -> None:
        """The leader of its first partition is killed (-9) and started again."""
        leader = self.leader(topic, 0)
        self.kill(leader)
        self.start_again(leader)

    def create_topic(self, name: str, partitions: int = 1, **config: str) -> str:
        settings = {key.replace("_", "."): value for key, value in config.items()}
        topic = NewTopic(name, partitions, len(self.ids), config=settings)

        def is_created(admin: AdminClient) -> bool:
            try:
                admin.create_topics([topic], operation_timeout=20)[name].result(30)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
            return True

        self.ask(is_created, f"{name} is created")
        return name

    def ask(self, question: Callable[[AdminClient], R], what: str) -> R:
        """Asked again, by a new client, until it is answered: brokers may be on their way."""

        unanswered: list[AdminClient] = []  # a client must live as long as its requests

        def answer() -> R | None:
            admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
            try:
                return question(admin)
            except (KafkaException, TimeoutError):
                unanswered.append(admin)
                return None

        return wait_for(answer, START_S, what)  # type: ignore[return-value]

    def leader(self, topic: str, partition: int) -> int:
        def leader(admin: AdminClient) -> int:
            said = admin.list_topics(topic, timeout=5).topics[topic].partitions
            return max(said[partition].leader, 0) if partition in said else 0

        return self.ask(leader, f"{topic}-{partition} has a leader")

    def partitions(self, topic: str) -> int:
        return self.ask(
            lambda admin: len(admin.list_topics(topic, timeout=5).topics[topic].partitions), topic
        )


class OneOttla(Brokers):
    def __init__(self, folder: Path, settings: Mapping[str, str], port: int) -> None:
        self.ids = [1]
        self._broker = RealBroker(1, port, folder, "", SETTINGS | dict(settings))

    @property
    def bootstrap(self) -> str:
        return self._broker.address

    def start(self) -> None:
        self._broker.start()

    def stop(self) -> None:
        self._broker.kill()

    def kill(self, broker_id: int) -> None:
        self._broker.kill()

    def start_again(self, broker_id: int) -> None:
        self._broker.start()

    @property
    def processes(self) -> list[OttlaProcess]:
        return [self._broker]


class OttlaCluster(Brokers):
    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        self._cluster = RealCluster(folder, settings=SETTINGS | CLUSTER | dict(settings))
        self.ids = sorted(self._cluster.brokers)

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap

    def start(self) -> None:
        self._cluster.start()

    def stop(self) -> None:
        self._cluster.stop()

    def kill(self, broker_id: int) -> None:
        self._cluster.brokers[broker_id].kill()

    def start_again(self, broker_id: int) -> None:
        self._cluster.brokers[broker_id].start()
        self._cluster.wait_settled()

    @property
    def processes(self) -> list[OttlaProcess]:
        return list(self._cluster.brokers.values())


class ApacheBrokers(Brokers):
    """Of Apache Kafka: brokers that are controllers as well, on fixed ports."""

    def __init__(self, settings: Mapping[str, str], ports: list[int]) -> None:
        cluster_id = apache.new_cluster_id()
        quorum = free_ports(len(ports))
        voters = ",".join(f"{number}@{HOST}:{port}" for number, port in enumerate(quorum, 1))
        self.ids = list(range(1, len(ports) + 1))
        self._nodes = {
            number: Node(
                {
                    **SETTINGS,
                    **(CLUSTER if len(ports) > 1 else {}),
                    **settings,
                    "node.id": str(number),
                    "controller.quorum.voters": voters,
                    "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{quorum[number - 1]}",
                },
                cluster_id,
                port,
            )
            for number, port in enumerate(ports, 1)
        }

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self._nodes.values())

    def start(self) -> None:
        for node in self._nodes.values():
            node.prepare()
        for node in self._nodes.values():
            node.start()
        self._wait_ready()

    def stop(self) -> None:
        for node in self._nodes.values():
            node.kill()
            node.stop()
            node.close()

    def kill(self, broker_id: int) -> None:
        self._nodes[broker_id].kill()

    def start_again(self, broker_id: int) -> None:
        self._nodes[broker_id].start()
        self._wait_ready()

    def _wait_ready(self) -> None:
        def is_whole(admin: AdminClient) -> bool:
            said = admin.list_topics(timeout=5)
            return len(said.brokers) == len(self._nodes) and all(
                partition.leader > 0 and len(partition.isrs) == len(partition.replicas)
                for topic in said.topics.values()
                for partition in topic.partitions.values()
            )

        self.ask(is_whole, "all brokers are there and in sync")


@contextmanager
def serving(
    folder: Path | None = None, count: int = 1, kind: str = CHOSEN, port: int = 0, **settings: str
) -> Iterator[Brokers]:
    """Started, and gone in the end. PeerError where Apache Kafka cannot be had."""
    given = {key.replace("_", "."): value for key, value in settings.items()}
    with tempfile.TemporaryDirectory(prefix="ottla-transactions-") as made:
        brokers = _made(folder or Path(made), count, kind, port, given)
        with running(brokers):
            yield brokers
        assert brokers.bugs() == []


def _made(folder: Path, count: int, kind: str, port: int, settings: dict[str, str]) -> Brokers:
    if kind == "apache":
        return ApacheBrokers(settings, [port] if port else free_ports(count))
    if kind != "ottla":
        raise PeerError(f"OTTLA_TRANSACTIONS_SERVER is ottla or apache, not {kind}")
    return (
        OneOttla(folder, settings, port or free_ports(1)[0]) if count == 1 else OttlaCluster(folder, settings)
    )
