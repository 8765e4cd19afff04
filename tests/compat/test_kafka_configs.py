"""What Apache Kafka's topics are set to holds in Ottla: records go that should, and all others stay."""

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench.servers import PeerError
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from tests.compat import traffic
from tests.compat.apache import Node, dump
from tests.compat.ottla import NODE_ID
from tests.compat.test_ottla_opens_kafka import KRAFT, findings
from tests.compat.traffic import FLUSH_S, QUIET
from tests.kafka_clients.harness import BrokerProcess, wait_for

from ottla.base.files import OsFiles
from ottla.base.ids import uuid_from_text
from ottla.controller.kraft_log import ClusterMetadata, read_cluster_metadata
from ottla.log.partition_metadata import format_partition_metadata, parse_partition_metadata

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
COUNT, KEYS = 12, 3
CLEANED_S = 100.0
EACH_IN_ITS_SEGMENT = {"segment.ms": str(HOUR_MS)}
SOME_DAYS = {"retention.ms": str(5 * DAY_MS + 12 * HOUR_MS)}

# The records are 12 to 1 days old, a segment each. The last one of each key stays, and the active segment.
ALL, COMPACTED = [*range(COUNT)], [8, 9, 10, 11]
TOPICS: dict[str, tuple[dict[str, str], list[int]]] = {
    "compacted": ({"cleanup.policy": "compact"}, COMPACTED),
    "altered": ({"cleanup.policy": "delete", "retention.ms": "1"}, COMPACTED),
    "remade": ({"cleanup.policy": "compact"}, COMPACTED),
    "both": ({"cleanup.policy": "compact,delete", **SOME_DAYS}, COMPACTED),
    "some-days": (SOME_DAYS, [7, 8, 9, 10, 11]),
    "for-ever": ({"retention.ms": "-1"}, ALL),
    "untouched": ({"cleanup.policy": "", "retention.ms": "1"}, ALL),
    # Two segments of at most 7 days each, and what was set for the broker.
    "plain": ({}, [8, 9, 10, 11]),
}
QUICK = {
    "broker.id": NODE_ID,
    "log.retention.check.interval.ms": "200",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.segment.delete.delay.ms": "0",
}
# Kafka itself is to leave all records where they are, and to write snapshots of its metadata.
PATIENT = {
    "log.initial.task.delay.ms": str(HOUR_MS),
    "log.cleaner.backoff.ms": str(HOUR_MS),
    "metadata.log.max.record.bytes.between.snapshots": "1500",
}


def fill(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "batch.num.messages": 1, **QUIET})
    now_ms = int(time.time() * 1000)
    for number in range(COUNT):
        at = now_ms - (COUNT - number) * DAY_MS
        producer.produce(topic, f"v{number}", f"k{number % KEYS}", 0, timestamp=at)
        assert producer.flush(FLUSH_S) == 0


def alter(bootstrap: str, kind: ResourceType, name: str, **configs: str | None) -> None:
    """None: back to the default."""
    entries = [
        ConfigEntry(
            key.replace("_", "."),
            value or "",
            incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
        )
        for key, value in configs.items()
    ]
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    for done in admin.incremental_alter_configs(
        [ConfigResource(kind, name, incremental_configs=entries)]
    ).values():
        done.result(30)


def own_configs(bootstrap: str, topic: str) -> dict[str, str]:
    admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})
    (done,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    return {name: entry.value for name, entry in done.result(30).items() if entry.source == 1}


@pytest.fixture(scope="module")
def written(kafka_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Node, Path]]:
    """A folder that Apache Kafka wrote and shut down cleanly, and the broker, if it is to go on."""
    node, data = Node(PATIENT), tmp_path_factory.mktemp("configured") / "data"
    try:
        node.prepare()
        node.start()
        node.wait_ready()
        node.create_topic("remade", {"cleanup.policy": "delete", "retention.ms": "1"})
        admin = AdminClient({"bootstrap.servers": node.bootstrap, **QUIET})
        admin.delete_topics(["remade"])["remade"].result(30)
        for topic, (configs, _) in TOPICS.items():
            node.create_topic(topic, configs | (EACH_IN_ITS_SEGMENT if configs else {}))
            fill(node.bootstrap, topic)
        alter(node.bootstrap, ResourceType.TOPIC, "altered", cleanup_policy="compact", retention_ms=None)
        alter(node.bootstrap, ResourceType.BROKER, NODE_ID, log_retention_ms=str(3 * DAY_MS))
        node.halt(signal.SIGTERM)
        shutil.copytree(node.data, data)
        yield node, data
    except PeerError as error:
        pytest.fail(f"Apache Kafka: {error}")
    finally:
        node.stop()
        node.close()


def opened(data: Path, folder: Path) -> BrokerProcess:
    broker = BrokerProcess(folder, QUICK)
    shutil.copytree(data, broker.data)
    broker.start()
    return broker


def offsets(broker: BrokerProcess, topic: str) -> list[int]:
    return [one.offset for one in traffic.read(broker.bootstrap, topic)]


def check_all(broker: BrokerProcess) -> None:
    for topic, (_, expected) in TOPICS.items():
        if len(expected) < COUNT:
            wait_for(lambda: offsets(broker, topic) == expected, CLEANED_S, topic)  # noqa: B023
    # What should go is gone, by the same checks that might have taken the rest.
    assert {topic: offsets(broker, topic) for topic in TOPICS} == {
        topic: expected for topic, (_, expected) in TOPICS.items()
    }


def test_every_record_that_should_stay_does_and_every_setting_outlives_the_keeper(
    written: tuple[Node, Path], tmp_path: Path
) -> None:
    _, data = written
    assert len([path for path in (data / KRAFT).glob("*.checkpoint") if not path.name.startswith("0" * 20)])
    broker = opened(data, tmp_path)
    try:
        check_all(broker)
        set_in_kafka = {topic: own_configs(broker.bootstrap, topic) for topic in TOPICS}
        assert set_in_kafka["altered"] == {"cleanup.policy": "compact", **EACH_IN_ITS_SEGMENT}
        assert set_in_kafka["plain"] == {}
        for topic, (configs, _) in TOPICS.items():
            if configs and topic != "altered":
                assert set_in_kafka[topic] == configs | EACH_IN_ITS_SEGMENT
        alter(broker.bootstrap, ResourceType.TOPIC, "for-ever", max_message_bytes="2000000")
        wait_for(lambda: "2000000" in (broker.data / "for-ever-0" / "topic.config").read_text())
        assert broker.stop() == 0
        assert findings(broker.data) == []
        for path in broker.data.glob("keeper.db*"):
            path.unlink()
        broker.start()
        kept = {topic: own_configs(broker.bootstrap, topic) for topic in TOPICS}
        assert kept == set_in_kafka | {
            "for-ever": set_in_kafka["for-ever"] | {"max.message.bytes": "2000000"},
        }
        check_all(broker)
        assert broker.bugs() == []
    finally:
        broker.kill()


def test_without_the_metadata_log_nothing_goes_until_somebody_says_so(
    written: tuple[Node, Path], tmp_path: Path
) -> None:
    """As from a Kafka that had its configs in ZooKeeper."""
    _, data = written
    broker = BrokerProcess(tmp_path, QUICK)
    shutil.copytree(data, broker.data, ignore=shutil.ignore_patterns(KRAFT))
    broker.start()
    try:
        remedy = "ottla configs set --topic altered cleanup.policy=delete"
        (line,) = [line for line in broker.log.splitlines() if remedy in line]
        assert all(topic in line for topic in TOPICS)
        broker.create_topic("clock", config={"retention.ms": "1", "file.delete.delay.ms": "0"})
        fill(broker.bootstrap, "clock")
        wait_for(lambda: offsets(broker, "clock") == [], what="a check of retention")
        assert {topic: offsets(broker, topic) for topic in TOPICS} == dict.fromkeys(TOPICS, ALL)
        command = [sys.executable, "-m", "ottla.cli", "configs", "set", "--topic", "compacted"]
        done = subprocess.run(
            [*command, "cleanup.policy=compact", "--bootstrap", broker.bootstrap],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        wait_for(lambda: offsets(broker, "compacted") == COMPACTED, CLEANED_S, "compaction")
        assert offsets(broker, "altered") == ALL
        assert broker.bugs() == []
    finally:
        broker.kill()


def test_the_metadata_log_is_read_as_kafkas_own_tool_reads_it(written: tuple[Node, Path]) -> None:
    folder = written[1] / KRAFT
    newest = max(folder.glob("*.checkpoint"))
    files = [newest, *sorted(folder.glob("*.log"))]
    expected = ClusterMetadata()
    begin = int(newest.name.split("-")[0])
    for one in dump(files, "--cluster-metadata-decoder"):
        for line in one.lines:
            if " payload: {" in line and line.startswith("| offset: "):
                offset = int(line.split()[2])
                if one.path == str(newest) or offset >= begin:
                    take(expected, json.loads(line.split(" payload: ", 1)[1]))
    found = read_cluster_metadata(OsFiles(), str(folder))
    assert found.topics == expected.topics
    assert set(TOPICS) <= set(found.topics)
    assert {key: values for key, values in found.configs.items() if values} == {
        key: values for key, values in expected.configs.items() if values
    }


def take(metadata: ClusterMetadata, record: dict[str, Any]) -> None:
    fields = record["data"]
    match record["type"]:
        case "TOPIC_RECORD":
            metadata.topics[fields["name"]] = uuid_from_text(fields["topicId"])
        case "REMOVE_TOPIC_RECORD":
            gone = uuid_from_text(fields["topicId"])
            (name,) = [name for name, topic_id in metadata.topics.items() if topic_id == gone]
            del metadata.topics[name]
            metadata.configs.pop((2, name), None)
        case "CONFIG_RECORD":
            values = metadata.configs.setdefault((fields["resourceType"], fields["resourceName"]), {})
            values.pop(fields["name"], None)
            if fields["value"] is not None:
                values[fields["name"]] = fields["value"]


def test_apache_kafka_takes_no_notice_of_what_ottla_keeps_beside_the_records(
    written: tuple[Node, Path], tmp_path: Path
) -> None:
    node, data = written
    broker = opened(data, tmp_path)
    try:
        wait_for(lambda: len([*broker.data.glob("*/topic.config")]) >= len(TOPICS))
        assert broker.stop() == 0
    finally:
        broker.kill()
    for topic in TOPICS:
        shutil.copy(broker.data / f"{topic}-0" / "topic.config", node.data / f"{topic}-0" / "topic.config")
    shutil.copy(broker.data / "broker.config", node.data / "broker.config")
    metadata = node.data / "plain-0" / "partition.metadata"
    topic_id = parse_partition_metadata(metadata.read_bytes())
    assert topic_id is not None
    metadata.write_bytes(format_partition_metadata(topic_id, no_configs=True))
    node.start()
    node.wait_ready()
    for topic in TOPICS:
        assert [one.offset for one in traffic.read(node.bootstrap, topic)] == ALL
        fill(node.bootstrap, topic)
    node.halt(signal.SIGTERM)
    assert [topic for topic in TOPICS if not (node.data / f"{topic}-0" / "topic.config").exists()] == []
    output = (node.data.parent / "output").read_text(errors="replace")
    assert [line for line in output.splitlines() if ".config" in line or "partition.metadata" in line] == []
