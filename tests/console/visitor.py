"""Somebody at a browser, in tests: logs in, opens pages, fills in forms."""

import re
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from html.parser import HTMLParser
from typing import Any, Self

from httpx2 import Response
from starlette.testclient import TestClient

from ottla import Broker
from ottla.client.properties import client_properties
from ottla.console.app import Console
from ottla.console.sessions import Session
from ottla.console.settings import ConsoleSettings

TOKEN = "a-token-that-nobody-guesses"


def settings_for(broker: Broker, **others: Any) -> ConsoleSettings:
    properties = {name: str(value) for name, value in broker.client_config.items()}
    where = client_properties(properties)
    token = "" if where.security.sasl else TOKEN
    return ConsoleSettings(where, **({"token": token, "port": 8080} | others))


class Visitor(AbstractContextManager["Visitor"]):
    def __init__(self, console: Console) -> None:
        self.console = console
        self.browser = TestClient(console.app, base_url="http://127.0.0.1:8080", follow_redirects=False)
        self.csrf = ""

    @classmethod
    def of(cls, settings: ConsoleSettings, **others: Any) -> Self:
        return cls(Console(settings, **({"clock": time.monotonic} | others)))

    @property
    def session(self) -> Session:
        """What the server knows of this visitor."""
        return next(session for session in self.console.sessions.all() if session.csrf == self.csrf)

    @contextmanager
    def another(self) -> Iterator["Visitor"]:
        """Somebody at another browser, of the same console."""
        visitor = Visitor(self.console)
        yield visitor
        visitor.browser.close()

    def __enter__(self) -> Self:
        self.browser.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.browser.__exit__(*_)

    def log_in(self, secret: str, user: str = "") -> Response:
        answer = self.browser.post("/login", data={"user": user, "secret": secret})
        if answer.status_code == 303:
            self.csrf = re.findall(r'name="csrf" value="([^"]+)"', self.browser.get("/no-such-page").text)[0]
        return answer

    def open(self, path: str, status: int = 200) -> "Seen":
        answer = self.browser.get(path)
        assert answer.status_code == status, answer.text
        return Seen(answer.text)

    def send(self, path: str, **fields: Any) -> Response:
        return self.browser.post(path, data={"csrf": self.csrf} | fields)

    def send_and_follow(self, path: str, **fields: Any) -> "Seen":
        answer = self.send(path, **fields)
        assert answer.status_code == 303, answer.text
        return self.open(answer.headers["location"])


class Seen(HTMLParser):
    """The text of a page, as a person reads it, and its links."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.html = page
        self._parts: list[str] = []
        self.links: list[str] = []
        self.feed(page)
        self.text = " ".join(" ".join(self._parts).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        href = dict(attrs).get("href")
        if tag == "a" and href:
            self.links.append(href)

    def handle_data(self, data: str) -> None:
        self._parts.append(data)

    def __contains__(self, words: str) -> bool:
        return words in self.text

    def __repr__(self) -> str:
        return self.text
