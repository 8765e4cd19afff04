"""Kafka Connect with its file connectors, and MirrorMaker 2 between Apache Kafka and Ottla."""

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka.admin import ConfigResource, ResourceType
from tests.compat import card, java_programs
from tests.compat.apache import Node
from tests.compat.background import tail
from tests.compat.card import Program
from tests.compat.watched_topic import WatchedTopic, committed, produce, read_all
from tests.support.ports import free_ports
from tests.support.waiting import wait_for
from tests.transactions.servers import Brokers

WITHIN_S = 120.0
INTERNAL = ("config", "offset", "status")
STRINGS = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "offset.flush.interval.ms": 500,
}
SOURCE = {"connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector", "topic": "lines"}
SINK = {"connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector", "topics": "lines"}


def lines(first: int, last: int) -> list[str]:
    return [f"line {n}" for n in range(first, last)]


def append(path: Path, some: list[str]) -> None:
    with path.open("a") as file:
        file.writelines(f"{line}\n" for line in some)


def wait_written(path: Path, wanted: list[str], folder: Path) -> None:
    """At least once, so lines may be there twice."""
    wait_for(
        lambda: path.exists() and set(path.read_text().splitlines()) >= set(wanted), WITHIN_S,
        lambda: f"{path.name}\n{tail(folder / 'log')}",
    )  # fmt: skip


class TestConnect:
    PROGRAM = Program(
        "Kafka Connect", java_programs.VERSION, card.TOOLS, "Maven: connect-runtime, connect-file"
    )

    def test_standalone(self, brokers: Brokers, tmp_path: Path) -> None:
        """Standalone: a file into a topic and out again, with a broker killed (-9) in between."""
        source, sink = tmp_path / "in.txt", tmp_path / "out.txt"
        worker = {
            "bootstrap.servers": brokers.bootstrap,
            "offset.storage.file.filename": tmp_path / "offsets",
            "listeners": f"http://127.0.0.1:{free_ports(1)[0]}",
            **STRINGS,
        }
        files = [
            java_programs.properties(tmp_path / "worker.properties", worker),
            java_programs.properties(tmp_path / "in.properties", {"name": "in", "file": source, **SOURCE}),
            java_programs.properties(tmp_path / "out.properties", {"name": "out", "file": sink, **SINK}),
        ]
        append(source, lines(0, 100))
        main = "org.apache.kafka.connect.cli.ConnectStandalone"
        with java_programs.running(tmp_path / "log", main, *files):
            wait_written(sink, lines(0, 100), tmp_path)
            brokers.restart_leader("lines")
            append(source, lines(100, 200))
            wait_written(sink, lines(0, 200), tmp_path)

    def test_distributed(self, brokers: Brokers, tmp_path: Path) -> None:
        """Distributed: three compacted topics, connectors by REST, a worker and a broker killed (-9)."""
        source, sink = tmp_path / "in.txt", tmp_path / "out.txt"
        (port,) = free_ports(1)
        topics = {f"{kind}.storage.topic": f"connect-{kind}" for kind in INTERNAL}
        replicas = {f"{kind}.storage.replication.factor": len(brokers.ids) for kind in INTERNAL}
        worker = {
            "bootstrap.servers": brokers.bootstrap,
            "group.id": "connect",
            "listeners": f"http://127.0.0.1:{port}",
            "scheduled.rebalance.max.delay.ms": 1_000,
            **topics,
            **replicas,
            **STRINGS,
        }
        file = java_programs.properties(tmp_path / "worker.properties", worker)
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        append(source, lines(0, 100))
        with java_programs.running(tmp_path / "log", main, file):
            for name, settings in (
                ("in", {"file": str(source), **SOURCE}),
                ("out", {"file": str(sink), **SINK}),
            ):
                wait_for(
                    lambda n=name, s=settings: _put(port, n, s), WITHIN_S, lambda: tail(tmp_path / "log")
                )
            wait_written(sink, lines(0, 100), tmp_path)
        append(source, lines(100, 200))
        with java_programs.running(tmp_path / "log", main, file):
            wait_written(sink, lines(0, 200), tmp_path)
            brokers.restart_leader("lines")
            append(source, lines(200, 300))
            wait_written(sink, lines(0, 300), tmp_path)
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in topics.values()]
        for settings in configs(brokers, resources):
            assert settings["cleanup.policy"].value == "compact"


def _put(port: int, name: str, settings: dict[str, str]) -> bool:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/connectors/{name}/config",
        json.dumps(settings).encode(),
        {"Content-Type": "application/json"},
        method="PUT",
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return bool(answer.status in (200, 201))
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


class TestMirrorMaker:
    PROGRAM = Program("MirrorMaker 2", java_programs.VERSION, card.TOOLS, "Maven: connect-mirror")

    def test_from_kafka(self, kafka: Node, brokers: Brokers, tmp_path: Path) -> None:
        """From Apache Kafka to Ottla: records, topic settings, group offsets; Ottla killed in between."""
        topic = f"orders-{len(brokers.ids)}"
        kafka.create_topic(topic, {"retention.ms": "123456789"})
        source, target = Side(kafka.bootstrap, 1), Side(brokers.bootstrap, len(brokers.ids))
        mirrors(source, target, topic, tmp_path, brokers)
        (settings,) = configs(brokers, [ConfigResource(ResourceType.TOPIC, topic)])
        assert settings["retention.ms"].value == "123456789"

    def test_to_kafka(self, kafka: Node, brokers: Brokers, tmp_path: Path) -> None:
        """From Ottla to Apache Kafka: records and group offsets; Ottla killed in between."""
        topic = brokers.create_topic(f"bills-{len(brokers.ids)}")
        source, target = Side(brokers.bootstrap, len(brokers.ids)), Side(kafka.bootstrap, 1)
        mirrors(source, target, topic, tmp_path, brokers)


class Side(NamedTuple):
    """One of the two clusters of a mirror."""

    bootstrap: str
    replicas: int


def mirror_settings(source: Side, target: Side, topic: str, group: str) -> dict[str, object]:
    """As docs/migrating.md has it: under the same name, with the offsets of groups."""
    return {
        "clusters": "source,target",
        "source.bootstrap.servers": source.bootstrap,
        "target.bootstrap.servers": target.bootstrap,
        "source->target.enabled": "true",
        "source->target.topics": topic,
        "source->target.groups": group,
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "replication.factor": target.replicas,
        "sync.group.offsets.enabled": "true",
        "emit.checkpoints.interval.seconds": 1,
        "sync.group.offsets.interval.seconds": 1,
        "refresh.topics.interval.seconds": 2,
        "refresh.groups.interval.seconds": 2,
        "offset.flush.interval.ms": 1_000,
        **{f"source.{kind}.storage.replication.factor": source.replicas for kind in INTERNAL},
        **{f"target.{kind}.storage.replication.factor": target.replicas for kind in INTERNAL},
        "checkpoints.topic.replication.factor": target.replicas,
        "offset-syncs.topic.replication.factor": source.replicas,
        "heartbeats.topic.replication.factor": 1,  # they are written to both
    }


def mirrors(source: Side, target: Side, topic: str, folder: Path, brokers: Brokers) -> None:
    values = [f"value {n}" for n in range(400)]
    group = f"readers-of-{topic}"
    produce(source.bootstrap, topic, values[:200], keys=values[:200])
    read_all(source.bootstrap, topic, group, 200)
    file = java_programs.properties(folder / "mm2.properties", mirror_settings(source, target, topic, group))
    main = "org.apache.kafka.connect.mirror.MirrorMaker"
    with WatchedTopic(target.bootstrap, topic) as seen, java_programs.running(folder / "log", main, file):
        wait_for(lambda: set(seen.values) >= set(values[:200]), WITHIN_S, lambda: tail(folder / "log"))
        brokers.restart_leader(topic)
        produce(source.bootstrap, topic, values[200:], keys=values[200:])
        wait_for(lambda: set(seen.values) >= set(values), WITHIN_S, lambda: tail(folder / "log"))
        read_all(source.bootstrap, topic, group, 400)
        # The mirror knows where the group is as far as it has noted offsets: the first half, at least.
        wait_for(
            lambda: committed(target.bootstrap, group, topic) >= 200, WITHIN_S, lambda: tail(folder / "log")
        )
    assert seen.keys == seen.values


def configs(brokers: Brokers, resources: list[ConfigResource]) -> list[dict[str, Any]]:
    return brokers.ask(
        lambda admin: [asked.result(30) for asked in admin.describe_configs(resources).values()], "configs"
    )
