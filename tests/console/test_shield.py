"""What the console refuses before a page is asked, and what every answer carries."""

import pytest
from starlette.testclient import TestClient
from tests.console.visitor import TOKEN, Visitor

from ottla.console.cluster.view import ClusterView
from ottla.console.shield import is_allowed


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "", "[::1"])
def test_a_name_of_somebody_else_that_leads_here_gets_nothing(stranger: TestClient, host: str) -> None:
    answer = stranger.get("/login", headers={"host": host})
    assert answer.status_code == 421
    assert "login" not in answer.text


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost:8080", "[::1]:8080", "10.1.2.3:8080"])
def test_an_address_is_no_name_and_cannot_lead_astray(host: str) -> None:
    assert is_allowed(host, {"localhost"})


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": ""},
        {"origin": "http://[::1"},
        {"origin": "http://127.0.0.1:8080@evil.example"},
        {"origin": "http://127.0.0.1:9999"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_another_site_can_neither_log_in_nor_change_anything(
    visitor: Visitor, headers: dict[str, str]
) -> None:
    for path in ("/login", "/logout", "/topics/x/delete"):
        answer = visitor.browser.post(path, data={"csrf": visitor.csrf, "secret": TOKEN}, headers=headers)
        assert (answer.status_code, "Another site" in answer.text) == (403, True)
    assert visitor.browser.get("/").status_code == 200


def test_every_answer_forbids_what_is_not_ours(visitor: Visitor) -> None:
    for path in ("/", "/login", "/nothing", "/static/console.css", "/static/nothing.js"):
        headers = visitor.browser.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
    assert visitor.browser.get("/").headers["cache-control"] == "no-store"


def test_a_page_that_fails_says_so_and_nothing_more(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: ClusterView) -> None:
        raise ZeroDivisionError("a secret of the console")

    monkeypatch.setattr(ClusterView, "snapshot", fail)
    browser = TestClient(visitor.console.app, visitor.browser.base_url, raise_server_exceptions=False)
    browser.cookies = visitor.browser.cookies
    answer = browser.get("/")
    assert (answer.status_code, "a bug in the console" in answer.text) == (500, True)
    assert "secret" not in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] == "no-store"


def test_pages_have_neither_script_nor_style_of_their_own(visitor: Visitor) -> None:
    page = visitor.open("/").html
    assert "<style" not in page
    assert " style=" not in page
    assert "<script>" not in page
    assert " onclick" not in page
