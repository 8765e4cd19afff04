"""A Produce or an EndTxn that comes late never becomes part of another transaction (design note 015, 4.25).

`OTTLA_LATE_S` is for how long a request is held back beyond what the test needs; the long form is 30 s.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from tests.support.ports import free_ports
from tests.support.waiting import wait_for
from tests.transactions import servers
from tests.transactions.conftest import NewProducer
from tests.transactions.producers import Refused, TransactionalProducer
from tests.transactions.proxy import END_TXN, PRODUCE, Hold, Proxy
from tests.transactions.reading import COMMITTED, UNCOMMITTED, Offsets, read
from tests.transactions.servers import Brokers

LATE_S = float(os.environ.get("OTTLA_LATE_S", "0"))


@pytest.fixture(scope="module")
def proxied(server_jars: None) -> Iterator[tuple[Brokers, Proxy]]:
    """A broker that its clients reach through the proxy alone."""
    port, own = free_ports(2)
    told = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"}
    with Proxy(own, port) as proxy, servers.serving(port=own, **told) as brokers:
        yield brokers, proxy


@pytest.fixture
def brokers(proxied: tuple[Brokers, Proxy]) -> Brokers:
    return proxied[0]


class InBackground(threading.Thread):
    """A step of a producer that waits for an answer which does not come."""

    def __init__(self, step: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._step = step
        self.start()

    def run(self) -> None:
        """Its request is held, or it is fenced: what matters is what the topic holds."""
        with contextlib.suppress(Refused, TimeoutError, AssertionError, RuntimeError):
            self._step()


def deliver_late(hold: Hold) -> None:
    """After as long as the run asks for; the broker knows nothing of the request meanwhile."""
    threading.Event().wait(LATE_S)
    hold.deliver()


@dataclass
class Topic:
    """What the test writes to, through the proxy, and what is there in the end."""

    name: str
    brokers: Brokers
    proxy: Proxy
    offsets: Offsets
    new_producer: NewProducer

    def two_producers(self, client: str) -> tuple[TransactionalProducer, TransactionalProducer]:
        """Of the same transactional id; the first is in a transaction."""
        first, second = (self.new_producer(client, self.proxy.bootstrap, self.name) for _ in range(2))
        first.init()
        first.begin()
        return first, second

    def hold_record(self, producer: TransactionalProducer) -> Hold:
        """A record that the producer has sent, and that has not come."""
        hold = self.proxy.hold(PRODUCE, self.name)
        InBackground(lambda: producer.written(self.name, "late"))
        hold.wait_held()
        return hold

    def assert_holds(self, *, committed: list[str], uncommitted: list[str]) -> None:
        """Once no transaction is open."""
        wait_for(lambda: self.offsets.is_stable(self.name), 60, "no transaction is open")
        assert read(self.brokers.bootstrap, self.name, COMMITTED) == [committed]
        assert read(self.brokers.bootstrap, self.name, UNCOMMITTED) == [uncommitted]


@pytest.fixture
def written(proxied: tuple[Brokers, Proxy], topic: str, offsets: Offsets, new_producer: NewProducer) -> Topic:
    return Topic(topic, *proxied, offsets, new_producer)


def test_an_end_that_comes_late_does_not_end_the_successors_transaction_faults_4_25(
    written: Topic, topic: str, client: str
) -> None:
    """It would commit what the successor is about to abort."""
    first, second = written.two_producers(client)
    first.written(topic, "first")
    hold = written.proxy.hold(END_TXN, topic)
    InBackground(first.commit)
    hold.wait_held()
    second.init()
    second.begin()
    second.written(topic, "second")
    deliver_late(hold)
    second.written(topic, "second-again")
    second.abort()
    written.assert_holds(committed=[], uncommitted=["first", "second", "second-again"])


def test_a_record_that_comes_late_is_not_in_the_successors_transaction_faults_4_25(
    written: Topic, topic: str, client: str
) -> None:
    first, second = written.two_producers(client)
    hold = written.hold_record(first)
    second.init()
    second.begin()
    second.written(topic, "second")
    deliver_late(hold)
    second.commit()
    written.assert_holds(committed=["second"], uncommitted=["second"])


def test_a_record_that_comes_when_its_transaction_was_aborted_opens_none_faults_4_25(
    written: Topic, client: str
) -> None:
    """It would be a transaction that nobody ends, and hold back the last stable offset for ever (KIP-890)."""
    first, second = written.two_producers(client)
    hold = written.hold_record(first)
    second.init()  # this aborts what the first has begun
    deliver_late(hold)
    written.assert_holds(committed=[], uncommitted=[])


@pytest.mark.parametrize("late", [END_TXN, PRODUCE], ids=["EndTxn", "Produce"])
def test_what_the_same_producer_sent_before_is_not_in_its_next_transaction_faults_4_25(
    written: Topic, topic: str, java_producer: None, late: int
) -> None:
    """The client gives up on a request, sends it again over another connection, and goes on. The first copy
    comes in the midst of the next transaction, from the same producer: the epoch tells (transactions V2)."""
    producer = written.new_producer(
        "java", written.proxy.bootstrap, topic, request_timeout_ms="1000", delivery_timeout_ms="60000"
    )
    producer.init()
    producer.begin()
    if late == END_TXN:
        producer.written(topic, "first")
    hold = written.proxy.hold(late, topic)
    if late == PRODUCE:
        producer.written(topic, "first")
    producer.commit()
    hold.wait_held()
    producer.begin()
    producer.written(topic, "second")
    deliver_late(hold)
    producer.written(topic, "third")
    producer.abort()
    written.assert_holds(committed=["first"], uncommitted=["first", "second", "third"])


@pytest.mark.parametrize("old_client", ["confluent", "aiokafka"])
def test_a_record_sent_twice_over_two_connections_is_written_once_faults_4_25(
    written: Topic, topic: str, old_client: str
) -> None:
    settings = {
        "confluent": {"socket_timeout_ms": 1_000, "request_timeout_ms": 1_000, "retry_backoff_ms": 20},
        "aiokafka": {"request_timeout_ms": 1_000},
    }[old_client]
    producer = written.new_producer(old_client, written.proxy.bootstrap, topic, **settings)
    producer.init()
    producer.begin()
    hold = written.proxy.hold(PRODUCE, topic)
    producer.written(topic, "first")
    producer.commit()
    hold.wait_held()
    producer.begin()
    producer.written(topic, "second")
    deliver_late(hold)
    producer.abort()
    written.assert_holds(committed=["first"], uncommitted=["first", "second"])
