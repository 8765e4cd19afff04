"""Draws the pictures of the console in docs/images/, from a real cluster in a real browser.

python -m tools.draw_console [FOLDER]     `make pictures`
"""

import shutil
import subprocess
import sys
import time
from pathlib import Path

from playwright.sync_api import Browser, Page
from tests.console.browser import chromium, logged_in
from tests.console.scene import shop, shop_pipelines
from tests.console.visitor import settings_for

from ottla import Broker
from ottla.client.properties import ClientProperties
from ottla.console import charts
from ottla.console.cluster import sampler
from ottla.console.server import ConsoleThread
from ottla.console.settings import ConsoleSettings

FOLDER = Path(__file__).parents[1] / "docs" / "images"
TOKEN = "a-token-for-pictures-only"
WIDE, NARROW = {"width": 1180, "height": 740}, {"width": 400, "height": 740}
PAGES = {
    "overview": "/",
    "topics": "/topics",
    "topic": "/topics/orders",
    "records": "/topics/orders/records",
    "record": "/topics/orders/records/0/0",
    "record-new": "/topics/orders/records/new?from=0:0",
    "topic-settings": "/topics/orders/settings",
    "topic-delete": "/topics/orders/delete",
    "topic-new": "/new-topic",
    "groups": "/groups",
    "group": "/groups/billing",
    "group-reset": "/groups/reports/reset",
    "brokers": "/brokers",
    "broker": "/brokers/1",
    "transactions": "/transactions",
    "users": "/users",
    "quotas": "/quotas",
    "pipelines": "/pipelines",
    "pipeline": "/pipelines/shop",
}
DARK = {"overview", "records"}
SMALL = {"overview", "group"}
ACLS = [
    ("User:billing", "Read", "Topic", "orders", "literal", "Allow"),
    ("User:billing", "Read", "Group", "billing", "literal", "Allow"),
    ("User:shop", "Write", "Topic", "orders", "prefixed", "Allow"),
    ("User:shop", "IdempotentWrite", "Cluster", "", "literal", "Allow"),
    ("User:*", "Describe", "Topic", "*", "literal", "Allow"),
    ("User:intern", "Delete", "Topic", "*", "literal", "Deny"),
]
POINTS_MIN, WITHIN_S = 25, 150.0


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    sampler.INTERVAL_S, sampler.SHARE, charts.SPAN_S_MIN = 0.5, 1, 20.0
    with chromium() as browser:
        draw_shop(browser, folder)
        draw_acls(browser, folder)


def draw_shop(browser: Browser, folder: Path) -> None:
    with shop() as cluster:
        where = ClientProperties(cluster.bootstrap_servers)
        settings = ConsoleSettings(where, port=0, token=TOKEN, pipelines=shop_pipelines)
        with ConsoleThread(settings) as console:
            page = browser.new_page(viewport=WIDE)  # type: ignore[arg-type]
            page.goto(console.login_url)
            page.wait_for_url(f"{console.url}/")
            fill_access(page, console.url)
            wait_for_lines(page)
            for name, path in PAGES.items():
                draw(page, console.url + path, "light", WIDE, folder / f"console-{name}.png")
                if name in DARK:
                    draw(page, console.url + path, "dark", WIDE, folder / f"console-{name}-dark.png")
                if name in SMALL:
                    draw(page, console.url + path, "light", NARROW, folder / f"console-{name}-narrow.png")


def fill_access(page: Page, url: str) -> None:
    """Users and quotas, by hand."""
    for user in ("billing", "shop", "intern"):
        page.goto(f"{url}/users")
        page.get_by_label("User", exact=True).fill(user)
        page.get_by_label("Password").fill("a long password")
        page.get_by_role("button", name="Set password").click()
        page.wait_for_selector(".notice.done")
    for name, key, value in (
        ("shop", "producer_byte_rate", "5000000"),
        ("", "consumer_byte_rate", "20000000"),
    ):
        page.goto(f"{url}/quotas")
        page.locator("#name").fill(name)
        page.locator("#key").select_option(key)
        page.locator("#value").fill(value)
        page.get_by_role("button", name="Set quota").click()
        page.wait_for_selector(".notice.done")
    page.goto(url)


def draw_acls(browser: Browser, folder: Path) -> None:
    """Of a cluster that has some."""
    with Broker(secure=True) as broker, ConsoleThread(settings_for(broker, port=0)) as console:
        security = broker._security
        assert security is not None
        cookies = logged_in(browser, console.url, security.username, security.password)
        context = browser.new_context(storage_state=cookies, viewport=WIDE)  # type: ignore[arg-type]
        page = context.new_page()
        for principal, operation, resource, name, pattern, permission in ACLS:
            page.goto(f"{console.url}/acls")
            page.locator("#principal").fill(principal)
            page.locator("#permission").select_option(permission)
            page.locator("#operation").select_option(operation)
            page.locator("#resource").select_option(resource)
            page.locator("#name").fill(name)
            page.locator("#pattern").select_option(pattern)
            page.get_by_role("button", name="Add ACL").click()
            page.wait_for_selector(".notice.done")
        draw(page, f"{console.url}/acls", "light", WIDE, folder / "console-acls.png")


def wait_for_lines(page: Page) -> None:
    """A picture of a line wants some points."""
    deadline_s = time.monotonic() + WITHIN_S
    line = page.locator("#throughput polyline").first
    while time.monotonic() < deadline_s:
        page.wait_for_timeout(3000)
        page.reload()
        if line.count() and len((line.get_attribute("points") or "").split()) >= POINTS_MIN:
            return
    raise SystemExit("the line did not grow")


def draw(page: Page, url: str, colour: str, size: dict[str, int], path: Path) -> None:
    page.emulate_media(color_scheme=colour)  # type: ignore[arg-type]
    page.set_viewport_size(size)  # type: ignore[arg-type]
    page.goto(url)
    page.wait_for_load_state("networkidle")
    page.screenshot(path=path)
    if pngquant := shutil.which("pngquant"):  # a third of the bytes; Debian has it
        subprocess.run([pngquant, "--force", "--strip", "--ext", ".png", "64", str(path)], check=False)


if __name__ == "__main__":
    main()
