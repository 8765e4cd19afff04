"""What is written once per session: a data directory by Ottla, and two by Apache Kafka."""

import shutil
import signal
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from bench import apache
from bench.servers import PeerError
from tests.cli import commands
from tests.compat import traffic
from tests.compat.apache import Node
from tests.compat.ottla_transactions import WrittenLog, write_transactions
from tests.compat.tools_jvm import ToolsJvm
from tests.compat.traffic import CODECS, Seen, Sent
from tests.compat.transactional import APACHE, OTTLA, Server, serving
from tests.kafka_clients.harness import BrokerProcess

from ottla.client import Client, TopicPartition

TRANSACTIONS = "transactions"
INTERLEAVED = "interleaved"  # transactions, in several segments
OTTLAS_TRANSACTIONS = "transactions-from-ottla"
COMMITTED = ", committed only"
ADOPTED = "from-ottla"
CLASSIC, MODERN = "classic-group", "consumer-group"
GROUPS = {CLASSIC: ("classic", 7), MODERN: ("consumer", 11)}
SEGMENT_FILES = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")


@dataclass
class Written:
    """A data directory and what was written into it."""

    data: Path
    sent: dict[str, list[Sent]] = field(default_factory=dict)
    seen: dict[str, list[Seen]] = field(default_factory=dict)
    committed: dict[str, int] = field(default_factory=dict)

    def folder_of(self, group: str) -> Path:
        """The partition of `__consumer_offsets` that has something about a group."""
        folders = self.data.glob("__consumer_offsets-*")
        (found,) = (
            each
            for each in folders
            if any(group.encode() in path.read_bytes() for path in each.glob("*.log"))
        )
        return found


run = commands.run


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The first test that needs Apache Kafka waits for its jars, and for all that is written."""
    for item in items:
        if "/tests/compat/" in str(item.path) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(apache.FETCH_S + 120))


@pytest.fixture(scope="session")
def kafka_jars() -> str:
    """The version of Apache Kafka that is at hand."""
    try:
        return apache.fetch()
    except PeerError as error:
        pytest.skip(f"needs Apache Kafka: {error}")


@pytest.fixture(scope="session")
def kafka_tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToolsJvm]:
    try:
        jvm = ToolsJvm(tmp_path_factory.mktemp("classes"))
    except PeerError as error:
        pytest.skip(f"needs Apache Kafka's tools: {error}")
    yield jvm
    jvm.close()


@pytest.fixture(scope="session")
def by_ottla(kafka_jars: str, tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Every codec, several segments, a crash in the middle, two groups; shut down cleanly."""
    broker = BrokerProcess(tmp_path_factory.mktemp("by-ottla"), {"group.initial.rebalance.delay.ms": "0"})
    written = Written(broker.data)
    config = {"segment.bytes": "8000", "index.interval.bytes": "1000"}
    broker.start()
    try:
        for codec in CODECS:
            broker.create_topic(codec, 1, config)
            written.sent[codec] = traffic.send(broker.bootstrap, codec, range(600), compression_type=codec)
        broker.kill()
        broker.start()
        for codec in CODECS:
            more = traffic.send(broker.bootstrap, codec, range(600, 1000), compression_type=codec)
            written.sent[codec] += more
        for group in GROUPS:
            join(broker.bootstrap, group, written)
        assert broker.stop() == 0
    finally:
        broker.kill()
    return written


@pytest.fixture(scope="session")
def transactions_by_ottla(tmp_path_factory: pytest.TempPathFactory) -> WrittenLog:
    return write_transactions(tmp_path_factory.mktemp("by-ottlas-log") / "t-0")


@pytest.fixture(scope="session")
def by_kafka(
    kafka_jars: str,
    by_ottla: Written,
    transactions_by_ottla: WrittenLog,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Written, Written]:
    """Two directories of one broker: after a clean shutdown, and after more records and kill -9.

    Before its second start it is given segments that Ottla wrote, as those of two topics of its own.
    """
    node = Node({"log.index.size.max.bytes": "40000", "group.initial.rebalance.delay.ms": "0"})
    folder = tmp_path_factory.mktemp("by-kafka")
    try:
        node.prepare()
        node.start()
        node.wait_ready()
        clean = _fill(node, folder / "clean")
        node.halt(signal.SIGTERM)
        shutil.copytree(node.data, clean.data)
        give(by_ottla.data / "zstd-0", node.data / f"{ADOPTED}-0")
        give(transactions_by_ottla.folder, node.data / f"{OTTLAS_TRANSACTIONS}-0")
        node.start()
        node.wait_ready()
        killed = Written(folder / "killed", committed=dict(clean.committed))
        join(node.bootstrap, MODERN, killed)
        for topic in (*CODECS, ADOPTED):
            traffic.send(node.bootstrap, topic, range(5000, 5200), value_bytes=900)
        for topic in (*CODECS, ADOPTED):
            killed.seen[topic] = traffic.read(node.bootstrap, topic)
        read_both(node, killed, TRANSACTIONS, INTERLEAVED, OTTLAS_TRANSACTIONS)
        node.halt(signal.SIGKILL)
        shutil.copytree(node.data, killed.data)
    except PeerError as error:
        pytest.fail(f"Apache Kafka: {error}")
    finally:
        node.stop()
        node.close()
    return clean, killed


@pytest.fixture(scope="session", params=[APACHE, OTTLA], name="transactional")
def transactional_broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A broker with transactions, in which they can be left hanging."""
    if request.param == APACHE:
        request.getfixturevalue("kafka_jars")
    with serving(request.param, tmp_path_factory.mktemp("transactional")) as server:
        yield server


@pytest.fixture
def transactional_topic(transactional: Server) -> str:
    """A new topic with two partitions, both of which have a leader."""
    name = f"t{uuid.uuid4().hex[:10]}"
    with Client(transactional.bootstrap) as client:
        client.create_topics({name: 2})
        client.ends([TopicPartition(name, number) for number in range(2)])
    return name


@pytest.fixture
def transactional_ottla(
    run: commands.Run, transactional: Server, monkeypatch: pytest.MonkeyPatch
) -> commands.Run:
    """`ottla`, with that broker to talk to."""
    monkeypatch.setenv("OTTLA_BOOTSTRAP", transactional.bootstrap)
    return run


def join(bootstrap: str, group: str, written: Written) -> None:
    protocol, offset = GROUPS[group]
    traffic.join_and_commit(bootstrap, group, protocol, CODECS[0], offset)
    written.committed[group] = offset


def _fill(node: Node, data: Path) -> Written:
    written = Written(data)
    for codec in CODECS:
        node.create_topic(codec, {"segment.bytes": str(1 << 20), "index.interval.bytes": "4096"})
        sent = traffic.send(node.bootstrap, codec, range(400), value_bytes=6000, compression_type=codec)
        written.sent[codec] = sent
    node.create_topic(TRANSACTIONS)
    traffic.send_transactions(node.bootstrap, TRANSACTIONS, "tests")
    node.create_topic(INTERLEAVED, {"segment.bytes": str(1 << 20)})
    traffic.send_interleaved(node.bootstrap, INTERLEAVED)
    node.create_topic(OTTLAS_TRANSACTIONS)
    node.create_topic(ADOPTED)
    join(node.bootstrap, CLASSIC, written)
    for topic in CODECS:
        written.seen[topic] = traffic.read(node.bootstrap, topic)
    read_both(node, written, TRANSACTIONS, INTERLEAVED)
    return written


def read_both(node: Node, written: Written, *topics: str) -> None:
    """All that is in topics with transactions, and what of it is committed."""
    for topic in topics:
        written.seen[topic] = traffic.read(node.bootstrap, topic)
        committed = traffic.read(node.bootstrap, topic, isolation_level="read_committed")
        written.seen[topic + COMMITTED] = committed


def give(source: Path, target: Path) -> None:
    """Put segments in the place of those of an empty partition, which keeps its topic id."""
    for path in target.iterdir():
        if path.suffix in SEGMENT_FILES:
            path.unlink()
    for path in source.iterdir():
        if path.suffix in SEGMENT_FILES or path.name == "leader-epoch-checkpoint":
            shutil.copy(path, target / path.name)
