"""Apache Kafka's tool for transactions against a broker that has one open, and one that hangs."""

import subprocess
import time
from collections.abc import Iterator

import pytest
from bench import apache
from bench.servers import PeerError, clean_environment
from tests.compat.apache import QUICK_JVM
from tests.kafka_clients.wire_client import Wire
from tests.support.ports import free_ports
from tests.support.waiting import wait_for
from tests.transactions import servers
from tests.transactions.conftest import NewProducer
from tests.transactions.reading import COMMITTED, UNCOMMITTED, Offsets, read
from tests.transactions.servers import Brokers

from ottla.records.builder import NewRecord, build_batch
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

TOOL_S = 120.0
PRODUCER_ID, EPOCH = 987_654, 3
PORT = free_ports(1)[0]


@pytest.fixture(scope="module")
def lenient() -> Iterator[Brokers]:
    """A broker that takes transactional records without asking their coordinator, as Kafka before 3.6."""
    try:
        apache.fetch()
    except PeerError as error:
        pytest.skip(f"needs Apache Kafka's tools: {error}")
    with servers.serving(port=PORT, transaction_partition_verification_enable="false") as brokers:
        yield brokers


@pytest.fixture
def brokers(lenient: Brokers) -> Brokers:
    return lenient


def tool(brokers: Brokers, *arguments: str) -> list[dict[str, str]]:
    """The rows of its table, by its column names."""
    command = apache.java(
        "org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", brokers.bootstrap, *arguments
    )
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TOOL_S, env=clean_environment() | QUICK_JVM
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    lines = [[cell.strip() for cell in line.split("\t")] for line in done.stdout.splitlines() if "\t" in line]
    return [dict(zip(lines[0], line, strict=False)) for line in lines[1:]]


def test_a_transaction_is_listed_described_and_aborted(
    brokers: Brokers, topic: str, new_producer: NewProducer, offsets: Offsets
) -> None:
    producer = new_producer("confluent", brokers, "of-the-tools")
    producer.init()
    producer.begin()
    producer.written(topic, "in-doubt")
    (listed,) = (row for row in tool(brokers, "list") if row["TransactionalId"] == "of-the-tools")
    (described,) = tool(brokers, "describe", "--transactional-id", "of-the-tools")
    (of_partition,) = tool(brokers, "describe-producers", "--topic", topic, "--partition", "0")
    assert (listed["TransactionState"], listed["Coordinator"]) == ("Ongoing", "1")
    assert (described["TopicPartitions"], described["TransactionTimeoutMs"]) == (f"{topic}-0", "60000")
    assert of_partition["ProducerId"] == described["ProducerId"] == listed["ProducerId"]
    assert of_partition["CurrentTransactionStartOffset"] == "0"
    tool(brokers, "abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
    wait_for(lambda: offsets.is_stable(topic), 60, "the transaction is aborted")
    assert read(brokers.bootstrap, topic, COMMITTED) == [[]]
    assert read(brokers.bootstrap, topic, UNCOMMITTED) == [["in-doubt"]]


def test_a_hanging_transaction_is_found_and_aborted(brokers: Brokers, topic: str, offsets: Offsets) -> None:
    """No coordinator knows of it, so nobody else would end it (KIP-664)."""
    long_ago_ms = int(time.time() * 1000) - 3_600_000
    batch = build_batch(
        [NewRecord(None, b"left-behind", (), long_ago_ms)],
        producer_id=PRODUCER_ID,
        producer_epoch=EPOCH,
        base_sequence=0,
        transactional=True,
    )
    partition = PartitionProduceData(index=0, records=bytes(batch))
    request = ProduceRequest(
        transactional_id="nobody",
        acks=-1,
        timeout_ms=5000,
        topic_data=[TopicProduceData(name=topic, partition_data=[partition])],
    )
    with Wire(PORT) as wire:
        answer = wire.call(request, 9)
    assert answer.responses[0].partition_responses[0].error_code == 0
    (hanging,) = tool(brokers, "find-hanging", "--broker-id", "1")
    assert (hanging["Topic"], hanging["ProducerId"]) == (topic, str(PRODUCER_ID))
    tool(brokers, "abort", "--topic", topic, "--partition", "0", "--start-offset", hanging["StartOffset"])
    wait_for(lambda: offsets.is_stable(topic), 60, "the transaction is aborted")
    assert tool(brokers, "find-hanging", "--broker-id", "1") == []
    assert read(brokers.bootstrap, topic, COMMITTED) == [[]]
