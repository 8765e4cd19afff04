"""Clients that try to use up what a broker has: memory, connections, descriptors, patience."""

import contextlib
import resource
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)
from tests.hostile.healthy import Healthy
from tests.kafka_clients.harness import BrokerProcess, wait_for
from tests.kafka_clients.wire_client import Closed, Wire, batch, fetch_request, frame_of

from ottla.shell.admission import LOCALS_MAX
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

StartBroker = Callable[..., BrokerProcess]

MEBIBYTE = 1 << 20
FETCH_BYTES_MAX = 55 * MEBIBYTE
LORIS_CONNECTIONS = 300
LORIS_BYTES = 40
CONNECTS = 20_000


def many(stack: contextlib.ExitStack, port: int, count: int) -> list[Wire]:
    return [stack.enter_context(Wire(port)) for _ in range(count)]


def is_served(port: int) -> bool:
    try:
        with Wire(port) as wire:
            return bool(wire.call(ApiVersionsRequest(), 0).api_keys)
    except (Closed, ConnectionError):
        return False


def test_connections_that_send_byte_by_byte_disturb_nobody(broker: BrokerProcess, healthy: Healthy) -> None:
    frame = frame_of(ApiVersionsRequest(client_software_name="loris", client_software_version="1" * 40), 3)
    with contextlib.ExitStack() as stack:
        before = broker.rss_bytes()
        wires = many(stack, broker.port, LORIS_CONNECTIONS)
        for at in range(LORIS_BYTES):
            for wire in wires:
                wire.send_bytes(frame[at : at + 1])
        assert broker.rss_bytes() - before < 20 * MEBIBYTE
        for wire in wires:
            wire.send_bytes(frame[LORIS_BYTES:])
        for wire in wires:
            assert wire.receive(ApiVersionsRequest, 3)[1].error_code == 0


def test_an_announced_frame_costs_nothing_until_it_comes(broker: BrokerProcess, healthy: Healthy) -> None:
    with contextlib.ExitStack() as stack:
        before = broker.rss_bytes()
        for wire in many(stack, broker.port, 200):
            wire.send_bytes(struct.pack(">i", 100 * MEBIBYTE) + b"\x00\x00\x00\x09")
        assert is_served(broker.port)
        assert broker.rss_bytes() - before < 20 * MEBIBYTE


def test_a_large_frame_that_never_ends_gives_its_memory_back(broker: BrokerProcess, healthy: Healthy) -> None:
    before = broker.rss_bytes()
    with Wire(broker.port) as wire:
        wire.send_bytes(struct.pack(">i", 90 * MEBIBYTE))
        for _ in range(60):
            wire.send_bytes(bytes(MEBIBYTE))
        wait_for(lambda: broker.rss_bytes() - before > 40 * MEBIBYTE, 10, "the bytes to arrive")
        assert broker.rss_bytes() - before < 200 * MEBIBYTE
    wait_for(lambda: broker.rss_bytes() - before < 20 * MEBIBYTE, 10, "the memory to come back")


def test_a_consumer_that_never_reads_holds_one_answer(broker: BrokerProcess, healthy: Healthy) -> None:
    readers, requests = 3, 30
    broker.create_topic("large", config={"max.message.bytes": str(11 * MEBIBYTE)})
    with Wire(broker.port) as wire:
        for _ in range(8):
            assert wire.produce("large", bytes(batch(b"x" * 10 * MEBIBYTE))).error_code == 0
    wanted = frame_of(fetch_request("large", partition_max_bytes=100 * MEBIBYTE), 11)
    before = broker.rss_bytes()
    with contextlib.ExitStack() as stack:
        wires = many(stack, broker.port, readers)
        for wire in wires:
            wire.send_bytes(wanted * requests)
        peak = 0
        end = time.monotonic() + 3
        while time.monotonic() < end:
            peak = max(peak, broker.rss_bytes() - before)
            assert is_served(broker.port)
        assert peak < readers * FETCH_BYTES_MAX + 50 * MEBIBYTE, f"{peak >> 20} MiB"
        for _ in range(2):
            assert len(wires[0].receive_frame()) > 40 * MEBIBYTE
    wait_for(lambda: broker.rss_bytes() - before < 50 * MEBIBYTE, 10, "the memory to come back")


@pytest.mark.parametrize("key", ["max.connections", "max.connections.per.ip"])
def test_over_the_limit_only_the_machine_itself_comes_in_on_a_few_connections(
    start_broker: StartBroker, key: str
) -> None:
    broker = start_broker({key: "20"})
    with contextlib.ExitStack() as stack:
        wires = many(stack, broker.port, 20 + LOCALS_MAX)
        for wire in wires:
            wire.call(ApiVersionsRequest(), 0)
        for _ in range(100):
            assert is_served(broker.port), "there is always room for one more from here"
        for wire in wires[:20]:
            wire.call(ApiVersionsRequest(), 0)
        assert wires[20].is_closed_by_peer(), "it was quiet longest of those beyond the limit"
    assert key in broker.log


def test_a_limit_that_shuts_everybody_out_is_undone_from_the_machine_itself(
    start_broker: StartBroker,
) -> None:
    broker = start_broker()

    def alter(value: str | None) -> None:
        resource = ConfigResource(ConfigResource.Type.BROKER, "1")  # type: ignore[attr-defined]
        how = AlterConfigOpType.SET if value else AlterConfigOpType.DELETE
        for key in ("max.connections", "max.connections.per.ip"):
            resource.add_incremental_config(ConfigEntry(key, value, incremental_operation=how))
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        admin.incremental_alter_configs([resource])[resource].result(30)

    alter("1")
    broker.stop()
    broker.start()
    with contextlib.ExitStack() as stack:
        for _ in range(5):
            many(stack, broker.port, LOCALS_MAX)  # others have come before
            alter("1")
        alter(None)
        wires = many(stack, broker.port, 50)
        for wire in wires:
            wire.call(ApiVersionsRequest(), 0)
        for wire in wires:
            wire.call(ApiVersionsRequest(), 0)


def test_thousands_of_clients_may_come_from_one_address(start_broker: StartBroker) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 4_096), hard), hard))
    broker = start_broker()  # they are behind a proxy
    with contextlib.ExitStack() as stack:
        for wire in many(stack, broker.port, 1_500):
            wire.call(ApiVersionsRequest(), 0)


def test_a_connection_on_which_nothing_happens_is_closed_and_a_waiting_one_is_answered(
    start_broker: StartBroker,
) -> None:
    broker = start_broker({"connections.max.idle.ms": "1000"})
    broker.create_topic("t")
    with Wire(broker.port) as silent, Wire(broker.port) as half, Wire(broker.port) as waiting:
        half.send_bytes(b"\x00\x00\x00\x40\x00\x12")
        began = time.monotonic()
        waiting.send(fetch_request("t", max_wait_ms=2**31 - 1), 11)
        _, answer = waiting.receive(type(fetch_request("t")), 11)
        assert time.monotonic() - began > 0.9  # of 24 days: no wait is longer than a connection may be idle
        assert answer.responses[0].partitions[0].error_code == 0
        assert silent.is_closed_by_peer()
        assert half.is_closed_by_peer()


def test_clients_that_hang_up_while_they_wait_free_their_places(start_broker: StartBroker) -> None:
    broker = start_broker({"max.connections": "20"}, log_level="debug")
    broker.create_topic("t")
    with contextlib.ExitStack() as stack:
        wires = many(stack, broker.port, 15)
        for wire in wires:
            wire.call(ApiVersionsRequest(), 0)
            wire.send(fetch_request("t", max_wait_ms=2**31 - 1), 11)
    with contextlib.ExitStack() as stack:
        wait_for(lambda: broker.log.count("the client hung up") == 15, 30, "the sweep")
        for wire in many(stack, broker.port, 15):
            wire.call(ApiVersionsRequest(), 0)


class FewFiles(BrokerProcess):
    """A broker that may open few files."""

    def command(self) -> list[str]:
        return ["/bin/sh", "-c", 'ulimit -n 128; exec "$@"', "sh", *super().command()]


def test_a_lack_of_file_descriptors_costs_requests_and_never_the_broker(tmp_path: Path) -> None:
    broker = FewFiles(tmp_path, {"num.partitions": "1"})
    broker.start()
    try:
        broker.create_topic("few", 20)
        with contextlib.ExitStack() as stack, Wire(broker.port) as first:
            wires = many(stack, broker.port, 200)
            wait_for(lambda: sum(wire.is_closed_by_peer(0.001) for wire in wires) > 100, what="refusals")
            for partition in range(20):
                assert first.produce("few", bytes(batch(b"x")), partition=partition).error_code == 0
            assert "the logs need files too (ulimit -n)" in broker.log
            # More logs than descriptors: some requests are refused, whoever has a file is served.
            create = CreatableTopic(name="many", num_partitions=150, replication_factor=1)
            first.send(CreateTopicsRequest(topics=[create], timeout_ms=1000), 5)
            with contextlib.suppress(Closed, TimeoutError):
                first.receive(CreateTopicsRequest, 5)
            refused = 0
            with contextlib.suppress(Closed, TimeoutError):
                for partition in range(150):
                    refused += bool(first.produce("many", bytes(batch(b"x")), partition=partition).error_code)
            assert refused
            assert first.produce("few", bytes(batch(b"y"))).error_code == 0
            assert broker.is_running, broker.log[-4000:]
        wait_for(lambda: is_served(broker.port), 30, "a place")
        assert broker.bugs() == []
        assert "the broker stops" not in broker.log
    finally:
        broker.kill()


def test_a_request_over_the_brokers_own_limit_closes(start_broker: StartBroker) -> None:
    broker = start_broker({"socket.request.max.bytes": "10000"})
    broker.create_topic("t")
    with Wire(broker.port) as wire:
        assert wire.produce("t", bytes(batch(b"x" * 9000))).error_code == 0
        wire.send_bytes(struct.pack(">i", 10_001))
        assert wire.is_closed_by_peer()


def test_unfinished_requests_share_a_budget(start_broker: StartBroker) -> None:
    broker = start_broker({"queued.max.request.bytes": str(20 * MEBIBYTE)})
    with contextlib.ExitStack() as stack:
        before = broker.rss_bytes()
        wires = many(stack, broker.port, 20)
        for wire in wires:
            with contextlib.suppress(Closed):
                wire.send_bytes(struct.pack(">i", 50 * MEBIBYTE))
                for _ in range(4):
                    wire.send_bytes(bytes(MEBIBYTE))
        wait_for(lambda: sum(wire.is_closed_by_peer(0.01) for wire in wires) > 5, what="some to be closed")
        assert broker.rss_bytes() - before < 80 * MEBIBYTE
        assert is_served(broker.port)


def test_whoever_holds_most_of_the_budget_pays_for_it(start_broker: StartBroker) -> None:
    broker = start_broker({"queued.max.request.bytes": str(20 * MEBIBYTE), "message.max.bytes": "4000000"})
    broker.create_topic("t")
    before = broker.rss_bytes()
    with Wire(broker.port) as stranger, Wire(broker.port) as healthy:
        # All but its last byte: a connection may hold twice what has come, and never more than the frame.
        stranger.send_bytes(struct.pack(">i", 19 * MEBIBYTE) + bytes(19 * MEBIBYTE - 1))
        wait_for(lambda: broker.rss_bytes() - before > 18 * MEBIBYTE, 10, "the bytes to arrive")
        for _ in range(3):
            assert healthy.produce("t", bytes(batch(b"x" * 2 * MEBIBYTE))).error_code == 0
        assert stranger.is_closed_by_peer()


def test_twenty_thousand_connections_leave_nothing_behind(broker: BrokerProcess, healthy: Healthy) -> None:
    """Most end with a reset, so that this machine is not left with as many ports in TIME_WAIT."""
    files, memory = broker.open_files(), broker.rss_bytes()
    frame = frame_of(ApiVersionsRequest(), 0)
    for number in range(CONNECTS):
        one = socket.create_connection(("127.0.0.1", broker.port), 10)
        if number % 3 == 0:
            one.sendall(frame[: number % len(frame)])
        if number % 20:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.close()
    wait_for(lambda: broker.open_files() <= files + 10, 20, "the descriptors to be closed")
    assert broker.rss_bytes() - memory < 30 * MEBIBYTE
