"""HTTP has no login: whoever reaches it, and whatever they send, disturbs nobody."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hostile.healthy import Healthy
from tests.kafka_clients.harness import BrokerProcess, wait_for
from tests.support.http import answers, get
from tests.support.ports import free_ports

from ottla import Broker
from ottla.shell.http import connection, listener, pages
from ottla.shell.http.connection import HEADER_BYTES_MAX, Answer
from ottla.shell.http.listener import CONNECTIONS_MAX

CONNECTS = 10_000
GET = b"GET /health/live HTTP/1.1\r\nHost: broker\r\n"
MEBIBYTE = 1 << 20
LIVE = b'{"live": true}\n'


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerProcess, str]]:
    """A broker in a process of its own, and where it serves HTTP."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    broker = BrokerProcess(tmp_path_factory.mktemp("http"), {"ottla.http.listener": address})
    broker.start()
    try:
        yield broker, address
        assert broker.stop() == 0
        assert broker.bugs() == []
    finally:
        broker.kill()


def connected(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=30)


def is_closed(channel: socket.socket) -> bool:
    """By the other side; what it said before is read."""
    channel.setblocking(False)
    try:
        while channel.recv(65_536):
            pass
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def still_open(channels: list[socket.socket]) -> list[socket.socket]:
    left = []
    for channel in channels:
        if channel.fileno() >= 0 and is_closed(channel):
            channel.close()
        elif channel.fileno() >= 0:
            left.append(channel)
    return left


# -- what is not a plain request --


@pytest.mark.parametrize(
    "sent",
    [
        GET + b"Content-Length: 5\r\n\r\nGET /version HTTP/1.1\r\nHost: x\r\n\r\n",
        GET + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /version HTTP/1.1\r\nHost: x\r\n\r\n",
        GET
        + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /version HTTP/1.1\r\n\r\n",
        GET + b"Content-Length: 0\r\nContent-Length: 44\r\n\r\nGET /version HTTP/1.1\r\nHost: x\r\n\r\n",
        GET + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\nGET /version HTTP/1.1\r\nHost: x\r\n\r\n",
        GET + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffffff\r\n",
        GET + b"X: a\r\n b\r\nContent-Length: 3\r\n\r\nabc",
        GET + b"Expect: 100-continue\r\nContent-Length: 1000000\r\n\r\n",
    ],
    ids=["length", "chunked", "both", "two lengths", "a space", "a huge chunk", "a folded line", "expect"],
)
def test_nothing_is_smuggled_in_behind_a_request(attacked: tuple[BrokerProcess, str], sent: bytes) -> None:
    answer = answers(attacked[1], sent)
    assert answer.startswith((b"HTTP/1.1 413", b"HTTP/1.1 400", b"HTTP/1.1 501"))
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"python" not in answer


def test_of_requests_that_come_at_once_the_first_is_answered(attacked: tuple[BrokerProcess, str]) -> None:
    answer = answers(attacked[1], (GET + b"\r\n") * 1_000)
    assert answer.count(b"HTTP/1.1 200") == 1
    assert b"Connection: close" in answer


@pytest.mark.parametrize(
    "sent",
    [
        b"\x00" * 1_000,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/9.9\r\nHost: x\r\n\r\n",
        b"\x00\x00\x00\x12\x00\x12\x00\x00\x00\x00\x00\x01\xff\xff\r\n\r\n",
    ],
    ids=["zeros", "TLS", "a word", "HTTP/2", "no host", "HTTP/9.9", "Kafka"],
)
def test_what_is_not_http_is_refused(attacked: tuple[BrokerProcess, str], sent: bytes) -> None:
    answer = answers(attacked[1], sent, closes=True)
    assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.1 505")), answer


def test_a_header_without_end_is_refused_at_its_limit(attacked: tuple[BrokerProcess, str]) -> None:
    broker, address = attacked
    before = broker.rss_bytes()
    with connected(address) as channel:
        sent = 0
        with contextlib.suppress(OSError):
            channel.sendall(GET)
            for _ in range(64 * MEBIBYTE // 65_536):
                channel.sendall(b"X-Long: " + b"x" * 65_528)
                sent += 65_536
    assert sent < 64 * MEBIBYTE
    assert broker.rss_bytes() - before < 10 * MEBIBYTE
    assert get(address, "/health/live").body == LIVE


def test_a_header_at_its_limit_is_told_so(attacked: tuple[BrokerProcess, str]) -> None:
    answer = answers(attacked[1], GET + b"X-Long: " + b"x" * HEADER_BYTES_MAX)
    assert answer.startswith(b"HTTP/1.1 431")


# -- too many, too slow --


def test_ten_thousand_connections_disturb_neither_the_broker_nor_who_else_asks(
    attacked: tuple[BrokerProcess, str],
) -> None:
    broker, address = attacked
    files = broker.open_files()
    held: list[socket.socket] = []
    with Healthy(broker) as healthy:
        try:
            for number in range(CONNECTS):
                channel = connected(address)
                channel.send(b"GET /heal")  # and never the rest
                held.append(channel)
                if number % 1_000 == 999:
                    assert broker.open_files() - files < 2 * CONNECTIONS_MAX + 32
                    assert get(address, "/health/live").body == LIVE
                    held = still_open(held)
            wait_for(lambda: len(still_open(held)) <= CONNECTIONS_MAX, 30, "no more are left")
        finally:
            for channel in held:
                channel.close()
    assert healthy.errors == []


def test_requests_without_end_take_a_small_share_of_the_broker(attacked: tuple[BrokerProcess, str]) -> None:
    broker, address = attacked
    is_over = threading.Event()
    answered = [0]

    def ask() -> None:
        paths = ("/metrics", "/health/ready", "/nothing")
        while not is_over.is_set():
            with contextlib.suppress(OSError):
                for path in paths:
                    get(address, path)
                    answered[0] += 1

    askers = [threading.Thread(target=ask) for _ in range(8)]
    with Healthy(broker):
        for asker in askers:
            asker.start()
        try:
            wait_for(lambda: answered[0] > 300, 60, "requests are answered")
        finally:
            is_over.set()
            for asker in askers:
                asker.join(60)


# -- in this process, where deadlines can be short --


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Broker]:
    """A broker that gives nobody much time."""
    monkeypatch.setattr(connection, "REQUEST_S", 0.3)
    monkeypatch.setattr(connection, "IDLE_S", 0.5)
    monkeypatch.setattr(connection, "SEND_S", 0.5)
    monkeypatch.setattr(listener, "SWEEP_S", 0.05)
    with Broker({"ottla.http.listener": "0"}, data=tmp_path) as broker:
        yield broker


def test_a_client_that_sends_byte_by_byte_is_cut_off(hasty: Broker) -> None:
    with connected(hasty.http_address) as channel:
        sent = iter(GET * 1_000)

        def is_cut_off() -> bool:
            with contextlib.suppress(OSError):
                channel.send(bytes([next(sent)]))
            return is_closed(channel)

        wait_for(is_cut_off, 30, "it is cut off")
    assert get(hasty.http_address, "/health/live").body == LIVE


@pytest.mark.parametrize("sent", [b"", GET + b"\r\n"], ids=["nothing", "a request"])
def test_a_client_that_sends_nothing_more_is_cut_off(hasty: Broker, sent: bytes) -> None:
    with connected(hasty.http_address) as channel:
        channel.sendall(sent)
        wait_for(lambda: is_closed(channel), 30, "it is cut off")


def test_a_client_that_does_not_read_its_answer_is_cut_off(
    hasty: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "IDLE_S", 3_600.0)
    monkeypatch.setattr(pages, "_json", lambda *_: Answer(200, "text/plain", bytes(16 * MEBIBYTE)))
    server = hasty._server
    assert server is not None
    assert server._http is not None
    watched = server._http._listener
    with connected(hasty.http_address) as channel:
        channel.sendall(GET + b"\r\n")
        wait_for(lambda: watched.unsent_bytes > MEBIBYTE, 30, "its answer waits")
        wait_for(lambda: not watched.connections, 30, "it is cut off")
        assert watched.unsent_bytes == 0


def test_a_bug_in_a_page_costs_its_connection(hasty: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Answer:
        raise LookupError("a bug")

    monkeypatch.setattr(pages, "_json", fail)
    for _ in range(3):
        assert answers(hasty.http_address, GET + b"\r\n") == b""
    monkeypatch.undo()
    assert get(hasty.http_address, "/health/live").body == LIVE
    assert hasty.is_running
