"""A real browser for tests and pictures: Debian's Chromium, driven by Playwright. Nothing is downloaded."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, Page, StorageState, sync_playwright

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 400, "height": 800}
WITHIN_MS = 30_000
AUDIT = """axe.run({resultTypes: ["violations"]}).then((results) => results.violations
  .filter((violation) => ["serious", "critical"].includes(violation.impact))
  .map((violation) => [violation.id, violation.nodes.slice(0, 3).map((node) => node.html.slice(0, 150))]))"""


def executable() -> str | None:
    return os.environ.get("OTTLA_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


needs_chromium = pytest.mark.skipif(executable() is None, reason="Debian's package chromium is not installed")


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable(), args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


def logged_in(browser: Browser, login_url: str, user: str = "", password: str = "") -> StorageState:
    """The cookies of somebody who took the link that the console prints, or gave a user and a password."""
    context = browser.new_context()
    context.set_default_timeout(WITHIN_MS)
    page = context.new_page()
    page.goto(login_url)
    if user:
        page.get_by_label("User").fill(user)
        page.get_by_label("Password").fill(password)
        page.get_by_role("button", name="Log in").click()
    page.wait_for_url(lambda address: "/login" not in address)
    state = context.storage_state()
    context.close()
    return state


@contextmanager
def watched_page(browser: Browser, url: str, **context: Any) -> Iterator[Page]:
    """A page at whose end there was no error in the browser, and no request to another host."""
    made = browser.new_context(base_url=url, **context)
    made.set_default_timeout(WITHIN_MS)
    page = made.new_page()
    wrongs: list[str] = []
    allowed = urlsplit(url).netloc
    page.on("pageerror", lambda error: wrongs.append(f"exception: {error}"))
    page.on(
        "console",
        lambda message: (
            wrongs.append(f"{message.type}: {message.text}")
            if message.type in {"error", "warning"} and "404 (Not Found)" not in message.text
            else None
        ),
    )
    page.on(
        "request",
        lambda request: (
            wrongs.append(f"request to {request.url}") if urlsplit(request.url).netloc != allowed else None
        ),
    )
    yield page
    made.close()
    assert wrongs == []


def serious_problems(page: Page) -> list[Any]:
    """What axe-core has to say about who cannot use a page."""
    page.evaluate(AXE_SCRIPT)
    problems: list[Any] = page.evaluate(AUDIT)
    return problems
