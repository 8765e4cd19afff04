"""Where OAUTHBEARER gets its tokens from."""

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from tests.client.secured_kafka import unsecured_token

from ottla.client import ClientError
from ottla.client.librdkafka.security import librdkafka_security
from ottla.client.security.settings import client_security
from ottla.client.security.tokens import Tokens, parsed

BEARER = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
OWN = {"sasl.oauthbearer.client.id": "app", "sasl.oauthbearer.client.secret": "app secret"}


class TokenServer(HTTPServer):
    def __init__(self, answers: list[tuple[int, Any]]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers = answers
        self.asked: list[tuple[str, dict[str, list[str]]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/token"


class _Handler(BaseHTTPRequestHandler):
    server: TokenServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        user = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
        self.server.asked.append((user, parse_qs(body)))
        status, answer = self.server.answers.pop(0)
        content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        if status == 302:
            self.send_header("Location", self.server.url)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def serving(*answers: tuple[int, Any]) -> Iterator[TokenServer]:
    with TokenServer(list(answers)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def tokens(properties: dict[str, str]) -> Tokens:
    sasl = client_security({**BEARER, **properties}).sasl
    assert sasl is not None
    assert sasl.tokens is not None
    return Tokens(sasl.tokens)


def endpoint(url: str) -> dict[str, str]:
    return {"sasl.oauthbearer.token.endpoint.url": url, **OWN}


def test_a_server_grants_a_token_that_is_kept_for_most_of_its_life() -> None:
    with serving(
        (200, {"access_token": "first", "expires_in": 3600}), (200, {"access_token": "x"})
    ) as server:
        granted = tokens({**endpoint(server.url), "sasl.oauthbearer.scope": "kafka"})
        assert granted.token().text == granted.token().text == "first"
        assert granted.token().expires_s > time.time() + 3000
        assert server.asked == [
            ("app:app secret", {"grant_type": ["client_credentials"], "scope": ["kafka"]})
        ]


def test_a_token_whose_life_is_over_is_asked_for_again() -> None:
    with serving((200, {"access_token": unsecured_token(-5)}), (200, {"access_token": "second"})) as server:
        granted = tokens(endpoint(server.url))
        assert granted.token().subject == "alice"
        assert granted.token().text == "second"


def test_an_id_and_a_secret_may_be_encoded_for_their_header() -> None:
    with serving((200, {"access_token": "x"})) as server:
        tokens({**endpoint(server.url), "sasl.oauthbearer.header.urlencode": "true"}).token()
        assert server.asked[0][0] == "app:app+secret"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            (401, {"error": "invalid_client"}),
            r"gives no token: HTTP 401 \(invalid_client\); check the client's id",
        ),
        ((302, b""), "gives no token: HTTP 302"),
        ((200, b"<html>"), "answers without an access_token"),
        ((200, ["x"]), "answers without an access_token"),
    ],
)
def test_a_server_that_gives_no_token_is_told_without_the_secret(answer: tuple[int, Any], said: str) -> None:
    with serving(answer) as server, pytest.raises(ClientError, match=said) as caught:
        tokens(endpoint(server.url)).token()
    assert "app secret" not in str(caught.value)
    assert len(server.asked) == 1, "nobody is followed elsewhere with the secret"


def test_a_server_that_cannot_be_reached_may_be_there_later(tmp_path: Path) -> None:
    with serving() as server:
        url = server.url
    with pytest.raises(OSError, match="for a token: Connection refused"):
        tokens(endpoint(url)).token()


def test_a_token_in_a_file_is_read_again_when_it_is_old(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(unsecured_token(-5) + "\n")
    read = tokens({"sasl.oauthbearer.token.endpoint.url": path.as_uri()})
    assert read.token().text == path.read_text().strip()
    path.write_text("another")
    assert read.token().text == "another"
    path.unlink()
    with pytest.raises(ClientError, match=r"cannot read the token in .*: No such file"):
        read.token()


def test_what_a_token_says_of_itself_is_read_and_not_believed() -> None:
    assert parsed("opaque") == ("opaque", 0, "")
    assert parsed("a.b.c") == ("a.b.c", 0, "")
    assert parsed(unsecured_token(60)).subject == "alice"


def test_librdkafka_asks_for_the_same_token() -> None:
    settings = librdkafka_security(client_security({**BEARER, "sasl.oauthbearer.token": unsecured_token(60)}))
    text, expires_s, subject, extensions = settings["oauth_cb"]("")
    assert (text.count("."), subject, extensions) == (2, "alice", {})
    assert expires_s > time.time() + 30
