"""What a broker answers over HTTP: pages, formats, and what it does not take."""

import asyncio
import gzip
import http.client
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as plain_metrics
from tests.support.http import answers, get
from tests.support.metrics import metrics_at
from tests.support.waiting import until

import ottla
from ottla import Broker
from ottla.shell.http import scrapes
from ottla.shell.http.connection import Asked
from ottla.shell.http.scrapes import Scrapes
from ottla.shell.keeper_shared import SharedKeeper, SharedTree
from ottla.shell.server import Server

PARTITIONS = "kafka_server_replicamanager_partitioncount"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker({"ottla.http.listener": "0"}) as broker:
        yield broker


@pytest.fixture(scope="module")
def address(broker: Broker) -> str:
    assert broker.http_address.startswith("127.0.0.1:")
    return broker.http_address


def test_a_broker_shows_nothing_unless_it_is_asked_to() -> None:
    with Broker() as broker:
        assert broker.http_address == ""


def test_a_broker_that_serves_is_live_and_ready(address: str) -> None:
    live = get(address, "/health/live")
    assert (live.status, live.json) == (200, {"live": True})
    ready = get(address, "/health/ready")
    assert ready.status == 200
    assert ready.json == {"ready": True, "reasons": [], "keeper": "connected"}
    assert ready.headers["Content-Type"] == "application/json"
    assert ready.headers["Cache-Control"] == "no-store"


def test_the_version_is_told(address: str) -> None:
    version = get(address, "/version").json
    assert (version["name"], version["version"]) == ("ottla", ottla.__version__)


def test_metrics_are_text_for_prometheus(broker: Broker, address: str) -> None:
    page = get(address, "/metrics")
    assert page.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    samples = {family.name: family.samples for family in plain_metrics(page.body.decode())}
    assert samples[PARTITIONS][0].value == broker.metrics()[PARTITIONS]
    assert samples["ottla_ready"][0].value == 1


def test_metrics_are_open_metrics_and_compressed_for_those_who_want_that(address: str) -> None:
    accept = "application/openmetrics-text; version=1.0.0; charset=utf-8"
    page = get(address, "/metrics", Accept=accept, Accept_Encoding="gzip")
    assert page.headers["Content-Type"] == accept
    assert page.headers["Content-Encoding"] == "gzip"
    names = {family.name for family in open_metrics(gzip.decompress(page.body).decode())}
    assert PARTITIONS in names


def test_a_metric_shows_what_was_so_when_it_was_asked_for(broker: Broker, address: str) -> None:
    def count() -> float:
        return metrics_at(address)[PARTITIONS]

    for number in range(5):
        before = count()
        broker.create_topic(f"counted-{number}", partitions=2)
        assert count() == before + 2


@pytest.mark.parametrize(
    "path", ["/", "/metrics/", "/health", "/metrics%20", "//metrics", "/../metrics", "*"]
)
def test_an_unknown_path_is_404(address: str, path: str) -> None:
    page = get(address, path)
    assert page.status == 404
    assert b"/health/ready" in page.body


def test_what_comes_behind_a_question_mark_has_no_effect(address: str) -> None:
    assert get(address, "/health/ready?verbose=1&stop=now").json["ready"] is True


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND"])
def test_a_method_other_than_get_and_head_is_405(address: str, method: str) -> None:
    page = get(address, "/metrics", method)
    assert (page.status, page.headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize("path", ["/version", "/metrics", "/nothing"])
def test_head_has_the_headers_of_get_and_no_body(address: str, path: str) -> None:
    head, page = get(address, path, "HEAD"), get(address, path)
    assert (head.status, head.body) == (page.status, b"")
    assert head.headers.keys() == page.headers.keys()
    assert path == "/metrics" or head.headers["Content-Length"] == str(len(page.body))


def test_a_connection_is_kept_for_further_requests(address: str) -> None:
    connection = http.client.HTTPConnection(address, timeout=30)
    try:
        for _ in range(3):
            connection.request("GET", "/health/live")
            assert connection.getresponse().read() == b'{"live": true}\n'
            port = connection.sock.getsockname()[1]
        assert connection.sock.getsockname()[1] == port
    finally:
        connection.close()


@pytest.mark.parametrize("closes", [False, True])
def test_a_client_of_http_1_0_is_answered_also_if_it_has_closed_its_side(address: str, closes: bool) -> None:
    answer = answers(address, b"GET /health/live HTTP/1.0\r\n\r\n", closes=closes)
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.endswith(b'{"live": true}\n')


def test_clients_of_the_broker_find_the_address_among_its_configs(broker: Broker, address: str) -> None:
    resource = ConfigResource(ConfigResource.Type.BROKER, "1")
    admin = AdminClient(broker.client_config)
    configs = admin.describe_configs([resource])[resource].result(30)
    assert configs["ottla.http.listener"].value == address


def test_nothing_listens_any_more_when_the_broker_has_stopped() -> None:
    with Broker({"ottla.http.listener": "127.0.0.1:0"}) as broker:
        address = broker.http_address
        assert get(address, "/health/ready").status == 200
    with pytest.raises(ConnectionRefusedError):
        get(address, "/health/ready")


# -- one scrape at a time --


class Readings:
    """Metrics that are read as slowly as a test likes."""

    def __init__(self) -> None:
        self.begun = 0
        self.under_way = 0
        self.go_on = asyncio.Event()

    async def pieces(self, _is_open_metrics: bool) -> AsyncIterator[str]:
        self.begun += 1
        self.under_way += 1
        assert self.under_way == 1
        number = self.begun
        await self.go_on.wait()
        self.under_way -= 1
        yield f"{number}\n"


PLAINLY = Asked("/metrics", "", "")


def test_who_asks_while_metrics_are_read_waits_for_the_next_time_and_shares_it() -> None:
    async def story() -> None:
        readings = Readings()
        scraped = Scrapes(readings.pieces, lambda: 0)
        first = asyncio.ensure_future(scraped.answer(PLAINLY))
        await until(lambda: readings.begun == 1, "metrics are read")
        others = [asyncio.ensure_future(scraped.answer(PLAINLY)) for _ in range(5)]
        await asyncio.sleep(0)
        readings.go_on.set()
        assert (await first).body == b"1\n"
        assert {(await other).body for other in others} == {b"2\n"}
        assert readings.begun == 2

    asyncio.run(story())


def test_a_source_that_fails_is_a_500_and_costs_the_broker_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def pieces(_is_open_metrics: bool) -> AsyncIterator[str]:
        yield "one\n"
        raise LookupError("gone")

    async def story() -> None:
        scraped = Scrapes(pieces, lambda: 0)
        for _ in range(2):
            assert (await scraped.answer(PLAINLY)).status == 500

    asyncio.run(story())
    assert "metrics cannot be read" in caplog.text


def test_a_page_that_is_much_too_large_is_refused_before_all_of_it_is_made(
    caplog: pytest.LogCaptureFixture,
) -> None:
    made_bytes = 0

    async def pieces(_is_open_metrics: bool) -> AsyncIterator[str]:
        nonlocal made_bytes
        piece = "x" * (1 << 20)
        for _ in range(1_000):
            made_bytes += len(piece)
            yield piece

    answer = asyncio.run(Scrapes(pieces, lambda: 0).answer(PLAINLY))
    assert answer.status == 500
    assert b"ottla.metrics.partitions.enable=false" in answer.body
    assert made_bytes < scrapes.BODY_BYTES_MAX + (2 << 20)
    assert "/metrics: metrics of more than 64 MiB are not shown" in caplog.text


def test_no_more_is_read_while_clients_do_not_take_what_they_asked_for() -> None:
    async def story() -> None:
        readings = Readings()
        scraped = Scrapes(readings.pieces, lambda: scrapes.UNSENT_BYTES_MAX + 1)
        assert (await scraped.answer(PLAINLY)).status == 503
        assert readings.begun == 0

    asyncio.run(story())


def test_a_broker_that_hands_over_what_it_leads_is_alive_and_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = {}

    async def look(server: Server) -> None:
        for path in ("/health/live", "/health/ready"):
            shown[path] = await asyncio.to_thread(get, str(server.http_address), path)

    monkeypatch.setattr(Server, "_drain", look)
    properties = {"listeners": "127.0.0.1:0", "log.dirs": str(tmp_path), "ottla.http.listener": "0"}
    tree = SharedTree()

    async def story() -> None:
        server = Server(
            properties, on_halt=lambda _reason: None, keeper=lambda loop: SharedKeeper(loop, tree)
        )
        await server.start()
        await server.stop()

    asyncio.run(story())
    assert shown["/health/live"].status == 200
    assert shown["/health/ready"].status == 503
    assert [reason["name"] for reason in shown["/health/ready"].json["reasons"]] == ["stopping"]
