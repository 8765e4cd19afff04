"""A Produce or an EndTxn that comes late never becomes part of another transaction (design note 015, 4.25).

`OTTLA_LATE_S` is for how long a request is held back beyond what the test needs; the long form is 30 s.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator

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


@pytest.fixture
def proxy(proxied: tuple[Brokers, Proxy]) -> Proxy:
    return proxied[1]


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


def held_back(hold: Hold) -> None:
    """For as long as the run asks for; the broker knows nothing of the request meanwhile."""
    hold.wait_held()
    threading.Event().wait(LATE_S)


def test_an_end_that_comes_late_does_not_end_the_successors_transaction_faults_4_25(
    brokers: Brokers, proxy: Proxy, topic: str, client: str, new_producer: NewProducer, offsets: Offsets
) -> None:
    """It would commit what the successor is about to abort."""
    name = f"{client}-{topic}"
    first, second = (new_producer(client, proxy.bootstrap, name) for _ in range(2))
    first.init()
    first.begin()
    first.written(topic, "first")
    hold = proxy.hold(END_TXN, name)
    InBackground(first.commit)
    hold.wait_held()
    second.init()
    second.begin()
    second.written(topic, "second")
    held_back(hold)
    hold.deliver()
    second.written(topic, "second-again")
    second.abort()
    wait_for(lambda: offsets.is_stable(topic), 60, "no transaction is open")
    assert read(brokers.bootstrap, topic, COMMITTED) == [[]]
    assert read(brokers.bootstrap, topic, UNCOMMITTED) == [["first", "second", "second-again"]]


def test_a_record_that_comes_late_is_not_in_the_successors_transaction_faults_4_25(
    brokers: Brokers, proxy: Proxy, topic: str, client: str, new_producer: NewProducer, offsets: Offsets
) -> None:
    name = f"{client}-{topic}"
    first, second = (new_producer(client, proxy.bootstrap, name) for _ in range(2))
    first.init()
    first.begin()
    hold = proxy.hold(PRODUCE, name)
    InBackground(lambda: first.written(topic, "late"))
    hold.wait_held()
    second.init()
    second.begin()
    second.written(topic, "second")
    held_back(hold)
    hold.deliver()
    second.commit()
    wait_for(lambda: offsets.is_stable(topic), 60, "no transaction is open")
    assert read(brokers.bootstrap, topic, COMMITTED) == [["second"]]
    assert read(brokers.bootstrap, topic, UNCOMMITTED) == [["second"]]


def test_a_record_that_comes_when_its_transaction_was_aborted_opens_none_faults_4_25(
    brokers: Brokers, proxy: Proxy, topic: str, client: str, new_producer: NewProducer, offsets: Offsets
) -> None:
    """It would be a transaction that nobody ends, and hold back the last stable offset for ever (KIP-890)."""
    name = f"{client}-{topic}"
    first, second = (new_producer(client, proxy.bootstrap, name) for _ in range(2))
    first.init()
    first.begin()
    hold = proxy.hold(PRODUCE, name)
    InBackground(lambda: first.written(topic, "late"))
    hold.wait_held()
    second.init()  # this aborts what the first has begun
    held_back(hold)
    hold.deliver()
    wait_for(lambda: offsets.is_stable(topic), 60, "no transaction is open")
    assert read(brokers.bootstrap, topic, UNCOMMITTED) == [[]]


@pytest.mark.parametrize("late", [END_TXN, PRODUCE], ids=["EndTxn", "Produce"])
def test_what_the_same_producer_sent_before_is_not_in_its_next_transaction_faults_4_25(
    brokers: Brokers,
    proxy: Proxy,
    topic: str,
    java_producer: None,
    new_producer: NewProducer,
    offsets: Offsets,
    late: int,
) -> None:
    """The client gives up on a request, sends it again over another connection, and goes on. The first copy
    comes in the midst of the next transaction, from the same producer: the epoch tells (transactions V2)."""
    producer = new_producer(
        "java", proxy.bootstrap, topic, request_timeout_ms="1000", delivery_timeout_ms="60000"
    )
    producer.init()
    producer.begin()
    if late == END_TXN:
        producer.written(topic, "first")
    hold = proxy.hold(late, topic)
    if late == PRODUCE:
        producer.written(topic, "first")
    producer.commit()
    hold.wait_held()
    producer.begin()
    producer.written(topic, "second")
    held_back(hold)
    hold.deliver()
    producer.written(topic, "third")
    producer.abort()
    wait_for(lambda: offsets.is_stable(topic), 60, "no transaction is open")
    assert read(brokers.bootstrap, topic, COMMITTED) == [["first"]]
    assert read(brokers.bootstrap, topic, UNCOMMITTED) == [["first", "second", "third"]]


@pytest.mark.parametrize("old_client", ["confluent", "aiokafka"])
def test_a_record_sent_twice_over_two_connections_is_written_once_faults_4_25(
    brokers: Brokers, proxy: Proxy, topic: str, old_client: str, new_producer: NewProducer, offsets: Offsets
) -> None:
    settings = {
        "confluent": {"socket_timeout_ms": 1_000, "request_timeout_ms": 1_000, "retry_backoff_ms": 20},
        "aiokafka": {"request_timeout_ms": 1_000},
    }[old_client]
    producer: TransactionalProducer = new_producer(old_client, proxy.bootstrap, topic, **settings)
    producer.init()
    producer.begin()
    hold = proxy.hold(PRODUCE, topic)
    producer.written(topic, "first")
    producer.commit()
    hold.wait_held()
    producer.begin()
    producer.written(topic, "second")
    held_back(hold)
    hold.deliver()
    producer.abort()
    wait_for(lambda: offsets.is_stable(topic), 60, "no transaction is open")
    assert read(brokers.bootstrap, topic, COMMITTED) == [["first"]]
    assert read(brokers.bootstrap, topic, UNCOMMITTED) == [["first", "second"]]
