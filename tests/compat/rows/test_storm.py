"""Apache Storm: examples/storm, as it stands, in a LocalCluster.

A LocalCluster listens on all addresses (Nimbus, DRPC, its own ZooKeeper), so it has a network namespace of
its own, and the brokers have one each.
"""

import contextlib
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.cluster.namespaces import Network
from tests.cluster.real import RealBroker, RealCluster
from tests.compat import card, toolchains
from tests.compat.card import Program
from tests.compat.rows.conftest import SETTINGS
from tests.compat.watched_topic import WatchedTopic, committed, produce
from tests.support.processes import OttlaProcess, die_with_parent, running
from tests.support.waiting import wait_for

EXAMPLE = Path(__file__).parents[3] / "examples" / "storm"
_POM = "{http://maven.apache.org/POM/4.0.0}"
VERSION = ElementTree.parse(EXAMPLE / "pom.xml").findtext(f"{_POM}properties/{_POM}storm.version") or ""
PROGRAM = Program("Apache Storm", VERSION, card.PROCESSORS, "Maven: storm-server, storm-kafka-client")
STORM = 4  # the number of its namespace; the brokers are 1 to 3
WITHIN_S = 180.0
# What Storm 2 needs of Java 17, for Kryo.
_OPEN = ("java.lang", "java.util", "java.nio", "sun.nio.ch")
OPENS = [word for name in _OPEN for word in ("--add-opens", f"java.base/{name}=ALL-UNNAMED")]


@pytest.fixture(scope="module")
def built() -> Path:
    """The folder with classes and libraries."""
    return toolchains.maven(EXAMPLE, "process-classes")


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    made = Network(STORM)
    try:
        yield made
    finally:
        made.remove()


class Topology:
    """A JVM with a LocalCluster in it."""

    def __init__(self, folder: Path, built: Path, network: Network, bootstrap: str) -> None:
        flags = [
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-Xmx384m",
            f"-Djava.io.tmpdir={folder}",
            *OPENS,
        ]
        path = f"{built}/target/classes:{built}/target/libs/*"
        self._command = [*network.prefix(STORM), "java", *flags, "-cp", path, "WordCount", bootstrap]
        self._folder = folder

    @contextlib.contextmanager
    def run(self, *topics: str) -> Iterator["subprocess.Popen[bytes]"]:
        """Killed in the end with its bolts, which end when their input does."""
        with (self._folder / "storm.log").open("ab") as log:
            process = subprocess.Popen(
                [*self._command, *topics], stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=self._folder,
                preexec_fn=die_with_parent,
            )  # fmt: skip
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    @property
    def log(self) -> str:
        return (self._folder / "storm.log").read_text(errors="replace")


def sentences(first: int, last: int) -> list[str]:
    """Each has a word of its own."""
    return [f"the cow jumped over number-{n}" for n in range(first, last)]


def numbers(counts: WatchedTopic) -> set[str]:
    return {key for key in counts.keys if key.startswith("number-")}


def wait_counted(counts: WatchedTopic, last: int, topology: Topology) -> None:
    wanted = {f"number-{n}" for n in range(last)}
    wait_for(
        lambda: numbers(counts) == wanted, WITHIN_S,
        lambda: f"{len(wanted - numbers(counts))} words of {last}\n{topology.log[-3000:]}",
    )  # fmt: skip


@pytest.fixture(name="single")
def single_broker(tmp_path: Path, network: Network, watched: list[OttlaProcess]) -> Iterator[RealBroker]:
    broker = RealBroker(1, 9092, tmp_path / "broker", "", SETTINGS)
    broker.host, broker.prefix = network.address(1), network.prefix(1)
    watched.append(broker)
    with running(broker):
        yield broker


def test_words_are_counted(built: Path, network: Network, single: RealBroker, tmp_path: Path) -> None:
    """Word count from topic to topic with a bolt in Python (multi-lang); the group ends with lag 0."""
    bootstrap = single.address
    topology = Topology(tmp_path, built, network, bootstrap)
    produce(bootstrap, "sentences", sentences(0, 2_000))
    with WatchedTopic(bootstrap, "counts") as counts, topology.run("sentences", "counts"):
        wait_counted(counts, 2_000, topology)
        seen = Counter(dict(zip(counts.keys, map(int, counts.values), strict=True)))
        assert min(seen["cow"], seen["the"]) >= 2_000  # more if a slow machine made Storm repeat a sentence
        wait_for(lambda: committed(bootstrap, "word-count", "sentences") == 2_000, WITHIN_S, "lag 0")


def survives(topology: Topology, bootstrap: str, fault: Callable[[], None]) -> None:
    """The topology is killed and started again; then the fault happens, and more records come."""
    produce(bootstrap, "sentences", sentences(0, 1_000))
    with WatchedTopic(bootstrap, "counts") as counts:
        with topology.run("sentences", "counts"):
            wait_for(lambda: len(numbers(counts)) > 100, WITHIN_S, lambda: topology.log[-3000:])
        produce(bootstrap, "sentences", sentences(1_000, 2_000))
        with topology.run("sentences", "counts"):
            wait_counted(counts, 2_000, topology)
            fault()
            produce(bootstrap, "sentences", sentences(2_000, 3_000))
            wait_counted(counts, 3_000, topology)
            wait_for(lambda: committed(bootstrap, "word-count", "sentences") == 3_000, WITHIN_S, "lag 0")


def test_kills_lose_nothing(built: Path, network: Network, single: RealBroker, tmp_path: Path) -> None:
    """Topology and broker killed (-9) and started again: at least once, nothing lost, lag 0."""

    def restart() -> None:
        single.kill()
        single.start()

    survives(Topology(tmp_path, built, network, single.address), single.address, restart)


def test_a_cluster_loses_a_leader(
    built: Path, network: Network, watched: list[OttlaProcess], tmp_path: Path
) -> None:
    """The same on a cluster of three, where the leader of the topic is killed and comes back."""
    with running(RealCluster(tmp_path, network=network)) as cluster:
        watched.extend(cluster.brokers.values())
        cluster.create_topic("sentences", 1)

        def kill_leader() -> None:
            broker = cluster.brokers[cluster.leader("sentences")]
            broker.kill()
            broker.start()

        survives(Topology(tmp_path, built, network, cluster.bootstrap), cluster.bootstrap, kill_leader)
