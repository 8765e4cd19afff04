"""Draws the pictures of the console in docs/images/, from a real cluster in a real browser.

python -m tools.draw_console [FOLDER]
"""

import sys
from pathlib import Path

from playwright.sync_api import Page
from tests.console.browser import chromium
from tests.console.scene import shop
from tests.support.waiting import wait_for

from ottla.client.properties import ClientProperties
from ottla.console.cluster import sampler
from ottla.console.server import ConsoleThread
from ottla.console.settings import ConsoleSettings

FOLDER = Path(__file__).parents[1] / "docs" / "images"
TOKEN = "a-token-for-pictures-only"
PAGES = {
    "overview": "/",
    "topics": "/topics",
    "topic": "/topics/orders",
    "settings": "/topics/orders/settings",
    "groups": "/groups",
    "group": "/groups/billing",
    "reset": "/groups/reports/reset",
    "brokers": "/brokers",
    "broker": "/brokers/1",
    "delete": "/topics/orders/delete",
    "create": "/new-topic",
}
WIDE, NARROW = {"width": 1280, "height": 860}, {"width": 400, "height": 860}


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    sampler.INTERVAL_S = 0.5
    with shop() as cluster, chromium() as browser:
        settings = ConsoleSettings(ClientProperties(cluster.bootstrap_servers), port=0, token=TOKEN)
        with ConsoleThread(settings) as console:
            page = browser.new_page(viewport=WIDE)  # type: ignore[arg-type]
            page.on("console", lambda message: print("console:", message.type, message.text))
            page.goto(console.login_url)
            page.wait_for_url(f"{console.url}/")
            wait_for(lambda: len(page.request.get(console.url).text()) and seconds_drawn(page) > 35, 90)
            for name, path in PAGES.items():
                for theme in ("light", "dark"):
                    draw(page, console.url + path, theme, WIDE, folder / f"{name}-{theme}.png")
                draw(page, console.url + path, "light", NARROW, folder / f"{name}-narrow.png")


def seconds_drawn(page: Page) -> int:
    page.reload()
    return (
        len((page.locator("#throughput polyline").first.get_attribute("points") or "").split())
        if page.locator("#throughput polyline").count()
        else 0
    )


def draw(page: Page, url: str, theme: str, size: dict[str, int], path: Path) -> None:
    page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
    page.set_viewport_size(size)  # type: ignore[arg-type]
    page.goto(url)
    page.wait_for_load_state("networkidle")
    page.screenshot(path=path)


if __name__ == "__main__":
    main()
