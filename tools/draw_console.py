"""Draws the pictures of the console in docs/images/, from a real cluster in a real browser.

python -m tools.draw_console [FOLDER]     `make pictures`
"""

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Page
from tests.console.browser import chromium
from tests.console.scene import shop

from ottla.cli.pipelines.console_pipelines import pipelines_in
from ottla.client.properties import ClientProperties
from ottla.console import charts
from ottla.console.cluster import sampler
from ottla.console.server import ConsoleThread
from ottla.console.settings import ConsoleSettings
from ottla.pipelines.folder import create_folder

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
}
DARK = {"overview"}
SMALL = {"overview"}
POINTS_MIN, WITHIN_S = 25, 150.0


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    sampler.INTERVAL_S, sampler.SHARE, charts.SPAN_S_MIN = 0.5, 1, 20.0
    with tempfile.TemporaryDirectory() as pipelines, shop() as cluster, chromium() as browser:
        create_folder(f"{pipelines}/logs", "logs", None)
        settings = ConsoleSettings(
            ClientProperties(cluster.bootstrap_servers),
            port=0,
            token=TOKEN,
            pipelines=pipelines_in([pipelines]),
        )
        with ConsoleThread(settings) as console:
            page = browser.new_page(viewport=WIDE)  # type: ignore[arg-type]
            page.goto(console.login_url)
            page.wait_for_url(f"{console.url}/")
            wait_for_lines(page)
            for name, path in PAGES.items():
                draw(page, console.url + path, "light", WIDE, folder / f"console-{name}.png")
                if name in DARK:
                    draw(page, console.url + path, "dark", WIDE, folder / f"console-{name}-dark.png")
                if name in SMALL:
                    draw(page, console.url + path, "light", NARROW, folder / f"console-{name}-narrow.png")


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
