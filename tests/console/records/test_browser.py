"""The Records page in a real browser: keys, live tail, a search that is stopped, both sizes and colours."""

import json
import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from axe_playwright_python.sync_playwright import Axe
from confluent_kafka import Producer
from playwright.sync_api import Browser, Page, expect
from tests.console import browser as browsers
from tests.console.visitor import settings_for

from ottla import Broker
from ottla.console.server import ConsoleServer, ConsoleThread

pytestmark = pytest.mark.skipif(browsers.executable() is None, reason="Chromium is not installed")
WITHIN_MS = 30_000
expect.set_options(timeout=WITHIN_MS)
# anyio loads this when it is first asked for; pytest rewrites it then, at which Python 3.11 fails in threads.
assert anyio.open_file
SIZES = {"wide": {"width": 1280, "height": 860}, "narrow": {"width": 400, "height": 860}}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browsers.chromium() as running:
        yield running


@pytest.fixture
def console(broker: Broker) -> Iterator[ConsoleServer]:
    with ConsoleThread(settings_for(broker, port=0)) as server:
        yield server


@pytest.fixture
def page(request: pytest.FixtureRequest, chromium: Browser, console: ConsoleServer) -> Iterator[Page]:
    """Somebody who is logged in. No error in the page, and no request to another host, may be left behind."""
    size, colours = getattr(request, "param", ("wide", "light"))
    context = chromium.new_context(viewport=SIZES[size], color_scheme=colours, base_url=console.url)  # type: ignore[arg-type]
    context.set_default_timeout(WITHIN_MS)
    opened = context.new_page()
    problems: list[str] = []
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    opened.on("request", lambda asked: asked.url.startswith(console.url) or problems.append(asked.url))
    opened.goto(console.login_url)
    opened.wait_for_url(console.url + "/")
    yield opened
    context.close()
    assert problems == []


def serious(page: Page) -> list[str]:
    found = Axe().run(page).response["violations"]
    return [
        f"{violation['id']}: {node['html']}"
        for violation in found
        if violation["impact"] in ("serious", "critical")
        for node in violation["nodes"]
    ]


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
    assert serious(page) == []
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
    assert serious(page) == []
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
