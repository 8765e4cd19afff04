"""Quotas with real clients: they get their rate, are told of it, and others notice nothing."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource
from kafka import KafkaConsumer, KafkaProducer
from tests.api.asking import batch
from tests.api.test_client_quotas import entry
from tests.kafka_clients.harness import BrokerProcess, serving, wait_for
from tests.kafka_clients.wire_client import Closed, Wire, produce_request

from ottla.base.errors import ErrorCode
from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest
from ottla.wire.messages.api_versions import ApiVersionsRequest

RATE = 300_000
MESSAGE = b"x" * 5_000
MEASURED_S = 3.0  # a rate is measured over this long
TOLERANCE = 0.15


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """With a short window, so that what a client saves in silence is soon used up."""
    settings = {"quota.window.num": "3", "max.connections.per.ip": "100"}
    with serving(tmp_path_factory.mktemp("quotas"), settings) as running:
        yield running


def set_quota(broker: BrokerProcess, name: str, value: float | None, **entity: str | None) -> None:
    request = AlterClientQuotasRequest(entries=[entry({name: value}, **entity)], validate_only=False)
    with Wire(broker.port) as wire:
        (result,) = wire.call(request, 1).entries
    assert result.error_code == ErrorCode.NONE, result.error_message


class Flow:
    """What passes, with the time. `is_over` ends whoever makes it."""

    def __init__(self) -> None:
        self.passed: list[tuple[float, int]] = []
        self.is_over = threading.Event()

    def add(self, size: int) -> None:
        self.passed.append((time.monotonic(), size))

    def rate(self) -> float | None:
        """Bytes a second in the last seconds; None before there were as many."""
        passed = list(self.passed)
        if not passed or passed[-1][0] - passed[0][0] < MEASURED_S:
            return None
        since = passed[-1][0] - MEASURED_S
        recent = [(at, size) for at, size in passed if at > since]
        return sum(size for _, size in recent) / MEASURED_S

    def is_at(self, rate: float) -> bool:
        measured = self.rate()
        return measured is not None and abs(measured - rate) <= rate * TOLERANCE


def flowing(make: Callable[[Flow], None]) -> tuple[Flow, threading.Thread]:
    flow = Flow()
    thread = threading.Thread(target=make, args=(flow,), daemon=True)
    thread.start()
    return flow, thread


def produce_with_confluent(
    broker: BrokerProcess, client_id: str, throttles: list[float]
) -> Callable[[Flow], None]:
    def make(flow: Flow) -> None:
        producer = Producer({
            "bootstrap.servers": broker.bootstrap, "client.id": client_id, "linger.ms": 5,
            "batch.size": 30_000, "queue.buffering.max.kbytes": 200, "acks": 1,
            "throttle_cb": lambda event: throttles.append(event.throttle_time),
        })  # fmt: skip
        while not flow.is_over.is_set():
            try:
                producer.produce("flow", MESSAGE, on_delivery=lambda _error, _message: flow.add(len(MESSAGE)))
            except BufferError:
                producer.poll(0.02)
            producer.poll(0)
        producer.purge()

    return make


def produce_with_kafka_python(
    broker: BrokerProcess, client_id: str, throttles: list[float]
) -> Callable[[Flow], None]:
    def make(flow: Flow) -> None:
        producer = KafkaProducer(
            bootstrap_servers=broker.bootstrap, client_id=client_id, linger_ms=5, batch_size=30_000, acks=1
        )
        unsent = deque[Any]()  # it has no limit of its own
        while not flow.is_over.is_set():
            if len(unsent) >= 40:
                unsent.popleft().get(60)
                flow.add(len(MESSAGE))
            unsent.append(producer.send("flow", MESSAGE))
        metrics = producer.metrics().values()
        throttles.extend(group["throttle-time-max"] for group in metrics if "throttle-time-max" in group)
        producer.close(timeout=60)

    return make


@pytest.mark.parametrize("make", [produce_with_confluent, produce_with_kafka_python])
def test_a_producer_gets_its_rate_and_is_told_while_another_gets_more(
    broker: BrokerProcess, make: Callable[..., Callable[[Flow], None]]
) -> None:
    limited_id, free_id = f"limited-{make.__name__}", f"free-{make.__name__}"
    if "flow" not in broker.admin.list_topics(timeout=30).topics:
        broker.create_topic("flow", config={"retention.bytes": "20000000", "segment.bytes": "5000000"})
    set_quota(broker, "producer_byte_rate", RATE, client_id=limited_id)
    throttles: list[float] = []
    unthrottled: list[float] = []
    limited, limited_thread = flowing(make(broker, limited_id, throttles))
    free, free_thread = flowing(make(broker, free_id, unthrottled))
    try:
        wait_for(lambda: limited.is_at(RATE), 60, f"a rate of {RATE}, not of {limited.rate()}")
        wait_for(lambda: (free.rate() or 0) > 2 * RATE, 60, "a producer without a quota is faster")
    finally:
        limited.is_over.set()
        free.is_over.set()
        limited_thread.join(60)
        free_thread.join(60)
        set_quota(broker, "producer_byte_rate", None, client_id=limited_id)
    assert max(throttles) > 0
    assert max(unthrottled, default=0.0) == 0


def consume_with_confluent(broker: BrokerProcess, client_id: str) -> Callable[[Flow], None]:
    def make(flow: Flow) -> None:
        consumer = Consumer({
            "bootstrap.servers": broker.bootstrap, "client.id": client_id, "group.id": client_id,
            "auto.offset.reset": "earliest", "fetch.message.max.bytes": 50_000,
        })  # fmt: skip
        consumer.subscribe(["full"])
        try:
            while not flow.is_over.is_set():
                for message in consumer.consume(100, 0.05):
                    flow.add(len(message.value() or b""))
        finally:
            consumer.close()

    return make


def consume_with_kafka_python(broker: BrokerProcess, client_id: str) -> Callable[[Flow], None]:
    def make(flow: Flow) -> None:
        consumer = KafkaConsumer(
            "full", bootstrap_servers=broker.bootstrap, client_id=client_id, group_id=client_id,
            auto_offset_reset="earliest", max_partition_fetch_bytes=50_000,
        )  # fmt: skip
        try:
            while not flow.is_over.is_set():
                for messages in consumer.poll(timeout_ms=50).values():
                    for message in messages:
                        flow.add(len(message.value))
        finally:
            consumer.close()

    return make


@pytest.fixture(scope="module")
def full(broker: BrokerProcess) -> str:
    """A topic with more than a limited consumer reads in the time of a test."""
    broker.create_topic("full")
    producer = Producer({"bootstrap.servers": broker.bootstrap, "batch.size": 50_000})
    for _ in range(6_000):
        producer.produce("full", MESSAGE)
        producer.poll(0)
    assert producer.flush(60) == 0
    return "full"


def test_a_consumer_gets_its_rate(broker: BrokerProcess, full: str) -> None:
    """Those of two libraries at the same time: each has its own quota."""
    makes = {f"limited-{make.__name__}": make for make in (consume_with_confluent, consume_with_kafka_python)}
    for client_id in makes:
        set_quota(broker, "consumer_byte_rate", RATE, client_id=client_id)
    flows = {client_id: flowing(make(broker, client_id)) for client_id, make in makes.items()}
    try:
        for client_id, (flow, _) in flows.items():
            wait_for(lambda flow=flow: flow.is_at(RATE), 60, f"a rate of {RATE} for {client_id}")
        for client_id, (flow, _) in flows.items():
            set_quota(broker, "consumer_byte_rate", None, client_id=client_id)
            wait_for(lambda flow=flow: (flow.rate() or 0) > 2 * RATE, 60, "without a quota it is faster")
    finally:
        for client_id, (flow, thread) in flows.items():
            flow.is_over.set()
            thread.join(60)
            set_quota(broker, "consumer_byte_rate", None, client_id=client_id)


# -- muted connections --


def test_a_muted_connection_is_served_again_when_its_time_is_over_and_another_gains_nothing(
    broker: BrokerProcess, topic: str
) -> None:
    broker.create_topic(topic)
    set_quota(broker, "producer_byte_rate", 10_000, client_id="wire")
    large = produce_request(topic, batch("x" * 40_000))
    try:
        with Wire(broker.port) as wire:
            began = time.monotonic()
            throttle_ms = wire.call(large, 9).throttle_time_ms
            assert 1_500 < throttle_ms < 4_000  # 40 kB, of which two seconds' worth were saved
            with Wire(broker.port) as another:
                again_ms = another.call(produce_request(topic, batch("v")), 9).throttle_time_ms
            assert again_ms > 0.5 * throttle_ms
            wire.call(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)
            assert time.monotonic() - began >= throttle_ms / 1_000
    finally:
        set_quota(broker, "producer_byte_rate", None, client_id="wire")


def test_a_muted_client_that_goes_away_leaves_nothing_behind(broker: BrokerProcess, topic: str) -> None:
    broker.create_topic(topic)
    set_quota(broker, "producer_byte_rate", 10_000, client_id="wire")
    files = broker.open_files()
    try:
        for _ in range(20):
            with Wire(broker.port) as wire:
                assert wire.call(produce_request(topic, batch("x" * 2_000)), 9) is not None
    finally:
        set_quota(broker, "producer_byte_rate", None, client_id="wire")
    wait_for(lambda: broker.open_files() <= files + 2, 60, "the connections are closed")


def test_a_client_that_uses_too_much_time_is_throttled(broker: BrokerProcess) -> None:
    set_quota(broker, "request_percentage", 0.001, client_id="wire")
    try:
        with Wire(broker.port) as wire:
            asked = ApiVersionsRequest(client_software_name="a", client_software_version="1")
            throttles = [wire.call(asked, 3).throttle_time_ms for _ in range(3)]
    finally:
        set_quota(broker, "request_percentage", None, client_id="wire")
    assert 0 < max(throttles) <= 1_000


# -- connections --


def asks(wire: Wire) -> bool:
    """Is it answered, and not closed?"""
    try:
        return bool(wire.call(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3))
    except Closed:
        return False


def test_connections_that_come_too_fast_are_served_later(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    broker = start_broker({"quota.window.num": "2", "max.connection.creation.rate": "10"})
    began = time.monotonic()
    connections = [Wire(broker.port) for _ in range(40)]
    try:
        assert all(asks(wire) for wire in connections)
    finally:
        for wire in connections:
            wire.close()
    assert time.monotonic() - began > 1.5  # ten at once, ten a second then


def test_an_address_over_its_quota_is_sent_away_without_an_answer(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    broker = start_broker({"quota.window.num": "2"})
    set_quota(broker, "connection_creation_rate", 3.0, ip="127.0.0.1")
    connections = [Wire(broker.port) for _ in range(12)]
    try:
        answered = [asks(wire) for wire in connections]
    finally:
        for wire in connections:
            wire.close()
    assert 1 <= sum(answered) <= 6

    def comes_in() -> bool:
        with Wire(broker.port) as wire:
            return asks(wire)

    wait_for(comes_in, 60, "an address that has been quiet comes in")


def test_a_limit_for_one_host_is_changed_while_the_broker_runs(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    """Over its limit the machine itself still has some connections, of which the quietest makes room."""
    broker = start_broker({"max.connections.per.ip.overrides": "localhost:1,10.9.8.7:3"})
    with Wire(broker.port) as first:
        assert asks(first)
        wait_for(lambda: _is_crowded(broker), 60, "the name of the host is looked up")
        resource = ConfigResource(
            ConfigResource.Type.BROKER, "1",
            incremental_configs=[
                ConfigEntry(
                    "max.connections.per.ip.overrides", "127.0.0.1:1000",
                    incremental_operation=AlterConfigOpType.SET,
                )
            ],
        )  # fmt: skip
        broker.admin.incremental_alter_configs([resource])[resource].result(30)
        wait_for(lambda: not _is_crowded(broker), 60, "the limit is raised")


def _is_crowded(broker: BrokerProcess) -> bool:
    connections = [Wire(broker.port) for _ in range(15)]
    try:
        answered = [asks(wire) for wire in connections]
        return not all(answered)
    finally:
        for wire in connections:
            wire.close()
