"""Commits in transactions, committed, aborted and open, in folders of `__consumer_offsets`: Ottla reads what
Apache Kafka wrote, and Kafka what Ottla wrote."""

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.servers import PeerError
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.api.asking import create
from tests.api.harness import Machine
from tests.compat.apache import Node, complaints, dump
from tests.compat.conftest import give
from tests.compat.ottla import over_copy
from tests.compat.traffic import FLUSH_S, QUIET
from tests.kafka_clients.harness import BrokerProcess, wait_for
from tests.kafka_clients.wire_client import Wire
from tests.support.groups import committing, fetching, find
from tests.support.transactions import FakeVerifier, adding, markers

from ottla.base.errors import ErrorCode
from ottla.base.ids import OFFSETS_TOPIC
from ottla.cli.storage.read_only_files import ReadOnlyFiles
from ottla.log.verify.directory import verify
from ottla.log.verify.findings import Severity, Work
from ottla.records.batch import BatchHeader, split
from ottla.records.control import Marker

TOPIC = "copied"
START_S = 60.0

# What was committed plainly, in a transaction that was committed, aborted or left open, and plainly after it
# began; and what a reader has to be told, whether it wants stable offsets or not.
COMMITTED, ABORTED, OPEN, NEW, LATER = "committed", "aborted", "open", "new-and-open", "later"
UNSTABLE = (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
TOLD = {
    COMMITTED: ((7, 0), (7, 0)),
    ABORTED: ((3, 0), (3, 0)),
    OPEN: (UNSTABLE, (4, 0)),
    NEW: (UNSTABLE, (-1, 0)),
    LATER: ((8, 0), (8, 0)),
}
TOLD_AFTER_COMMIT = TOLD | {OPEN: ((9, 0), (9, 0)), NEW: ((9, 0), (9, 0))}


def commit(bootstrap: str, group: str, offset: int) -> None:
    consumer = _consumer(bootstrap, group)
    try:
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, offset)], asynchronous=False)
    finally:
        consumer.close()


def _consumer(bootstrap: str, group: str) -> Consumer:
    return Consumer({"bootstrap.servers": bootstrap, "group.id": group, **QUIET})


def begin(bootstrap: str, transactional_id: str, offset: int, *groups: str) -> Producer:
    """A transaction with a record and an offset of every group."""
    settings = {"transactional.id": transactional_id, "transaction.timeout.ms": 600_000}
    producer = Producer({"bootstrap.servers": bootstrap, **QUIET, **settings})
    producer.init_transactions(FLUSH_S)
    producer.begin_transaction()
    producer.produce(TOPIC, transactional_id, partition=0)
    for group in groups:
        consumer = _consumer(bootstrap, group)
        place = [TopicPartition(TOPIC, 0, offset)]
        producer.send_offsets_to_transaction(place, consumer.consumer_group_metadata(), FLUSH_S)
        consumer.close()
    return producer


@pytest.fixture(scope="module")
def node(kafka_jars: str) -> Iterator[Node]:
    node = Node({"offsets.topic.num.partitions": "1", "transaction.max.timeout.ms": "900000"})
    try:
        node.prepare()
        yield node
    except PeerError as error:
        pytest.fail(f"Apache Kafka: {error}")
    finally:
        node.stop()
        node.close()


@pytest.fixture(scope="module")
def by_kafka(node: Node, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What Apache Kafka has on its disk when it is killed with a transaction open."""
    node.start()
    node.wait_ready()
    node.create_topic(TOPIC)
    for group, offset in ((ABORTED, 3), (OPEN, 4), (LATER, 1)):
        commit(node.bootstrap, group, offset)
    begin(node.bootstrap, "a", 7, COMMITTED).commit_transaction(FLUSH_S)
    begin(node.bootstrap, "b", 9, ABORTED).abort_transaction(FLUSH_S)
    overtaken = begin(node.bootstrap, "c", 5, LATER)
    commit(node.bootstrap, LATER, 8)
    overtaken.commit_transaction(FLUSH_S)
    left_open = begin(node.bootstrap, "d", 9, OPEN, NEW)
    node.halt(signal.SIGKILL)
    del left_open  # after that it can end nothing
    data = tmp_path_factory.mktemp("transactional-offsets") / "data"
    shutil.copytree(node.data, data)
    return data


@pytest.fixture
def opened(by_kafka: Path, tmp_path: Path) -> Iterator[BrokerProcess]:
    with over_copy(by_kafka, tmp_path) as broker:
        yield broker


@pytest.fixture(scope="module")
def by_ottla(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The partition that Ottla writes for the same commits."""
    machine = Machine({"offsets.topic.num.partitions": "1"})
    client = machine.client()
    machine.broker.verifier = FakeVerifier()
    create(client, TOPIC)
    client.send(find(OPEN), 2)

    def plain(group: str, offset: int) -> None:
        client.send(committing(offset, group=group, topic=TOPIC), 9)

    def added(producer_id: int, offset: int, *groups: str) -> None:
        for group in groups:
            client.send(adding(offset, group=group, topic=TOPIC, producer_id=producer_id), 5)

    def ended(producer_id: int, *, committed: bool) -> None:
        client.send(markers(Marker(producer_id, 1, committed, 0, 2), OFFSETS_TOPIC, 0))

    for group, offset in ((ABORTED, 3), (OPEN, 4), (LATER, 1)):
        plain(group, offset)
    added(10, 7, COMMITTED)
    ended(10, committed=True)
    added(11, 9, ABORTED)
    ended(11, committed=False)
    added(12, 5, LATER)
    plain(LATER, 8)
    ended(12, committed=True)
    added(13, 9, OPEN, NEW)
    machine.stop()
    folder = tmp_path_factory.mktemp("by-ottla") / f"{OFFSETS_TOPIC}-0"
    folder.mkdir()
    for name in machine.disk.list(f"/data/{OFFSETS_TOPIC}-0"):
        (folder / name).write_bytes(machine.disk.read(f"/data/{OFFSETS_TOPIC}-0/{name}"))
    return folder


def told(wire: Wire, group: str, *, require_stable: bool) -> tuple[int, int]:
    def ask() -> tuple[int, int] | None:
        answer = wire.call(fetching(0, group=group, topic=TOPIC, version=7, require_stable=require_stable), 7)
        if answer.error_code:
            return None  # it is being loaded
        partition = answer.topics[0].partitions[0]
        return partition.committed_offset, partition.error_code

    offset: tuple[int, int] = wait_for(ask, START_S, f"an answer about {group}")
    return offset


def all_told(port: int) -> dict[str, tuple[tuple[int, int], tuple[int, int]]]:
    with Wire(port) as wire:
        return {
            group: (told(wire, group, require_stable=True), told(wire, group, require_stable=False))
            for group in TOLD
        }


def open_producer(data: Path) -> BatchHeader:
    """The last transactional batch in `__consumer_offsets`, which is the open one's."""
    batches = b"".join(path.read_bytes() for path in sorted((data / f"{OFFSETS_TOPIC}-0").glob("*.log")))
    headers = [header for header, _ in split(batches)]
    return [header for header in headers if header.is_transactional and not header.is_control][-1]


def test_offsets_count_as_the_markers_in_the_folder_say(opened: BrokerProcess) -> None:
    assert all_told(opened.port) == TOLD


def test_an_open_transaction_of_the_folder_can_be_ended_and_stays_so_after_a_crash(
    opened: BrokerProcess,
) -> None:
    header = open_producer(opened.data)
    marker = Marker(header.producer_id, header.producer_epoch, True, 0, 0)
    assert all_told(opened.port) == TOLD
    with Wire(opened.port) as wire:
        answer = wire.call(markers(marker, OFFSETS_TOPIC, 0), 1)
    assert answer.markers[0].topics[0].partitions[0].error_code == ErrorCode.NONE
    assert all_told(opened.port) == TOLD_AFTER_COMMIT
    opened.kill()
    opened.start()
    assert all_told(opened.port) == TOLD_AFTER_COMMIT


def test_verify_finds_nothing_wrong_with_the_folder(by_kafka: Path) -> None:
    findings = verify(Work(files=ReadOnlyFiles()), [str(by_kafka)])
    assert [finding for finding in findings if finding.severity is not Severity.NOTE] == []


def test_the_tool_of_apache_kafka_reads_what_ottla_wrote(kafka_jars: str, by_ottla: Path) -> None:
    files = sorted(by_ottla.glob("*.log"))
    dumped = list(dump(files, "--offsets-decoder", "--deep-iteration"))
    assert complaints(dumped) == []
    batches = [batch for one in dumped for batch in one.batches]
    transactional = [batch for batch in batches if batch["isTransactional"] == "true"]
    assert [
        (batch["producerId"], batch["producerEpoch"], batch["isControl"], batch["baseSequence"])
        for batch in transactional
    ] == [
        ("10", "0", "false", "0"), ("10", "1", "true", "-1"),
        ("11", "0", "false", "0"), ("11", "1", "true", "-1"),
        ("12", "0", "false", "0"), ("12", "1", "true", "-1"),
        ("13", "0", "false", "0"), ("13", "0", "false", "0"),
    ]  # fmt: skip
    ends = [line for one in dumped for line in one.lines if "endTxnMarker" in line]
    assert [line.split("endTxnMarker: ")[1].split()[0] for line in ends] == ["COMMIT", "ABORT", "COMMIT"]


def test_the_coordinator_of_apache_kafka_loads_what_ottla_wrote(
    node: Node, by_kafka: Path, by_ottla: Path
) -> None:
    """In the place of what it had written itself."""
    assert by_kafka != node.data
    give(by_ottla, node.data / f"{OFFSETS_TOPIC}-0")
    node.start()
    node.wait_ready()
    assert all_told(int(node.bootstrap.rpartition(":")[2])) == TOLD
