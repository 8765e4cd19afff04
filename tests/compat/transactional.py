"""Brokers with transactions for the tests of commands: Apache Kafka and Ottla; and
transactions left open in them, in every way there is."""

import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

import pytest
from bench.servers import PeerError
from confluent_kafka import Producer
from tests.compat.apache import Node
from tests.compat.ottla import running
from tests.compat.traffic import FLUSH_S, QUIET
from tests.kafka_clients.harness import BrokerProcess
from tests.kafka_clients.wire_client import Wire, produce_request
from tests.support.waiting import wait_for

from ottla.base.errors import ErrorCode
from ottla.records.builder import NewRecord, build_batch
from ottla.wire.messages.init_producer_id import InitProducerIdRequest

APACHE, OTTLA = "Apache Kafka", "Ottla"
HOUR_MS = 3_600_000
# Without the check a producer can leave records that no coordinator knows of, as before KIP-890.
SETTINGS = {
    "transaction.partition.verification.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "2",
}


class Server(Protocol):
    @property
    def bootstrap(self) -> str: ...


@contextmanager
def serving(kind: str, folder: Path, settings: Mapping[str, str] = SETTINGS) -> Iterator[Server]:
    if kind == OTTLA:
        with running(BrokerProcess(folder, dict(settings))) as broker:
            yield broker
        return
    node = Node(dict(settings))
    try:
        node.prepare()
        node.start()
        node.wait_ready()
        yield node
    except PeerError as error:
        pytest.fail(f"Apache Kafka: {error}")
    finally:
        node.stop()
        node.close()


def kill_and_start(server: Server) -> None:
    """kill -9, and the same broker again, on its data."""
    if isinstance(server, BrokerProcess):
        server.kill()
        server.start()
        return
    assert isinstance(server, Node)
    server.halt(signal.SIGKILL)
    server.start()
    server.wait_ready()


class Left(NamedTuple):
    """A transaction that was left open in partition 0 of a topic."""

    producer_id: int
    producer_epoch: int
    start_offset: int


def leave_hanging(server: Server, topic: str, transactional_id: str | None, *, age_ms: int = HOUR_MS) -> Left:
    """Write to a partition that was never added to the transaction. Without a transactional id the producer
    is one that no coordinator has heard of."""
    with Wire(int(server.bootstrap.rpartition(":")[2])) as wire:

        def init() -> tuple[int, int] | None:
            request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
            answer = wire.call(request, 4)
            assert answer.error_code in {
                ErrorCode.NONE, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            }  # fmt: skip
            return None if answer.error_code else (answer.producer_id, answer.producer_epoch)

        producer_id, epoch = wait_for(init, what="a producer id")
        batch = build_batch(
            [NewRecord(None, b"left behind", (), int(time.time() * 1000) - age_ms)],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=0,
            transactional=True,
        )
        request = produce_request(topic, bytes(batch))
        request.transactional_id = transactional_id or "nobody"
        (answer,) = wire.call(request, 9).responses[0].partition_responses
        assert answer.error_code == 0
        return Left(producer_id, epoch, answer.base_offset)


def begun(server: Server, topic: str, transactional_id: str, *, age_ms: int = 0, **settings: int) -> Producer:
    """A producer with a transaction that is open in partition 0 of a topic."""
    own = {name.replace("_", "."): value for name, value in settings.items()}
    producer = Producer(
        {"bootstrap.servers": server.bootstrap, "transactional.id": transactional_id, **QUIET, **own}
    )
    producer.init_transactions(FLUSH_S)
    producer.begin_transaction()
    producer.produce(topic, "open", partition=0, timestamp=int(time.time() * 1000) - age_ms)
    assert producer.flush(FLUSH_S) == 0
    return producer
