"""The Records page in a real browser: keys, live tail, a search that is stopped, both sizes and colours."""

import json
import os
import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from confluent_kafka import Producer
from playwright.sync_api import Browser, Page, StorageState, expect
from tests.console import browser as browsers
from tests.console.browser import NARROW, WIDE, WITHIN_MS, needs_chromium, serious_problems, watched_page
from tests.console.records.conftest import wait_half_way
from tests.console.visitor import settings_for

from ottla import Broker
from ottla.console.server import ConsoleServer, ConsoleThread

pytestmark = needs_chromium
expect.set_options(timeout=WITHIN_MS)
# anyio loads this when it is first asked for; pytest rewrites it then, at which Python 3.11 fails in threads.
assert anyio.open_file
SIZES = {"wide": WIDE, "narrow": NARROW}
MANY = 2_000_000


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browsers.chromium() as running:
        yield running


@pytest.fixture(scope="module")
def console(broker: Broker) -> Iterator[ConsoleServer]:
    with ConsoleThread(settings_for(broker, port=0)) as server:
        yield server


@pytest.fixture(scope="module")
def cookies(chromium: Browser, console: ConsoleServer) -> StorageState:
    return browsers.logged_in(chromium, console.login_url)


@pytest.fixture
def page(
    request: pytest.FixtureRequest, chromium: Browser, console: ConsoleServer, cookies: StorageState
) -> Iterator[Page]:
    """Somebody who is logged in."""
    size, colours = getattr(request, "param", ("wide", "light"))
    context = {"viewport": SIZES[size], "color_scheme": colours, "storage_state": cookies}
    with watched_page(chromium, console.url, **context) as opened:
        yield opened


@pytest.mark.parametrize("page", [("wide", "light"), ("narrow", "dark")], ids="-".join, indirect=True)
def test_records_are_walked_through_opened_tailed_searched_and_sent(
    page: Page, broker: Broker, fill: Any
) -> None:
    now_ms = int(time.time() * 1000)
    values = [json.dumps({"id": number, "city": "Brno"}) for number in range(60)]
    topic = fill([{"value": value, "timestamp": now_ms - 900 + at} for at, value in enumerate(values)])
    page.goto(f"/topics/{topic}/records")
    rows = page.locator("#records tbody tr[data-key]")
    tail = page.get_by_role("button", name="Live tail")
    expect(rows).to_have_count(50)
    expect(tail).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator("tr.peek pre[data-text=value]")).to_contain_text('"id": 58')
    assert serious_problems(page) == []
    page.keyboard.press("]")
    expect(rows).to_have_count(10)
    expect(tail).to_be_visible()  # with it the page hears keys
    page.keyboard.press("[")
    expect(rows).to_have_count(50)
    expect(tail).to_be_visible()

    page.keyboard.press("l")
    expect(page.locator("#progress")).to_have_text("Waiting for records")
    producer = Producer(broker.client_config)
    producer.produce(topic, b'{"id": 60, "city": "Praha"}')
    assert producer.flush(30) == 0
    expect(rows.first).to_contain_text("Praha")
    page.keyboard.press("Escape")
    expect(page.locator("#progress")).to_contain_text("Stopped: 1 record has come")

    page.locator("#q").fill("wanted")
    tail.click()
    expect(page.locator("#progress")).to_have_text("Waiting for records that match")
    for value in (b"another", b"it is Wanted"):
        producer.produce(topic, value)
    assert producer.flush(30) == 0
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("it is Wanted")
    tail.click()
    page.locator("#q").fill("")
    page.locator("h1").click()

    page.keyboard.press("/")
    page.keyboard.type("PRAHA")
    page.keyboard.press("Enter")
    expect(page.locator("#progress")).to_contain_text("1 found. Searched 63 records")
    expect(rows).to_have_count(1)
    rows.locator("a").first.click()
    page.get_by_role("link", name="Send again").click()
    page.locator("#value").fill("sent again, <b>changed</b>")
    page.locator("select[name=value_form]").select_option("text")
    assert serious_problems(page) == []
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.locator("#notices")).to_contain_text("Sent to partition 0")
    expect(page.locator("pre[data-text=value]")).to_have_text("sent again, <b>changed</b>")


def test_a_search_is_stopped_half_way(page: Page, fill: Any, half_way: threading.Event) -> None:
    topic = fill([{"value": b"x" * 200} for _ in range(5_000)], **{"batch.size": 4_000})
    page.goto(f"/topics/{topic}/records?q=nowhere")
    expect(page.locator("#progress")).to_contain_text("found. Searched")
    expect(page.locator("#progress")).to_contain_text(re.compile("^[5-9][0-9] %"))
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#progress")).to_contain_text(re.compile("^Stopped at [5-9][0-9] %"))
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    half_way.set()


@pytest.mark.skipif("OTTLA_LONG_TESTS" not in os.environ, reason="`make search` does it")
@pytest.mark.timeout(1_800)
def test_two_million_records_are_searched_and_a_search_of_them_is_stopped_half_way(
    page: Page, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topic("very-many", 4)
    settings = {"linger.ms": 50, "batch.size": 200_000, "queue.buffering.max.messages": 500_000}
    producer = Producer(broker.client_config | settings)
    for number in range(MANY):
        value = b'{"id": %d, "customer": "customer-%d", "city": "%s", "total": %d}' % (
            number, number % 1000, b"Brno" if number in (7, MANY // 2, MANY - 1) else b"Praha", number % 400,
        )  # fmt: skip
        while True:
            try:
                producer.produce("very-many", value, partition=number % 4)
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(300) == 0
    progress = page.locator("#progress")
    for looked_for in ("q=brno", "q=city+%3D+Brno&in=field"):
        page.goto(f"/topics/very-many/records?{looked_for}")
        expect(progress).to_contain_text("3 found. Searched 2M records", timeout=600_000)
        print(looked_for, progress.text_content())
    go_on = wait_half_way(monkeypatch)
    page.goto("/topics/very-many/records?q=nowhere")
    expect(progress).to_contain_text(re.compile("^[5-9][0-9] %"), timeout=600_000)
    page.get_by_role("button", name="Stop").click()
    expect(progress).to_contain_text(re.compile("^Stopped at [5-9][0-9] %"))
    print("stopped", progress.text_content())
    go_on.set()
    deadline_s = time.monotonic() + 60
    while any(thread.name.startswith("search-") for thread in threading.enumerate()):
        assert time.monotonic() < deadline_s, "the search goes on"
        page.wait_for_timeout(50)
