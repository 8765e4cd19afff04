"""Who gets into the console, and for how long."""

from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import pytest
from starlette.testclient import TestClient
from tests.console.visitor import TOKEN, Visitor, settings_for

from ottla import Broker
from ottla.console import logins, sessions


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def test_a_stranger_is_sent_to_the_login_and_from_there_to_where_they_wanted(stranger: TestClient) -> None:
    answer = stranger.get("/?x=1")
    assert (answer.status_code, answer.headers["location"]) == (303, "/login?next=%2F%3Fx%3D1")
    answer = stranger.post("/login", data={"secret": TOKEN, "next": "/?x=1"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/?x=1")


def test_a_login_leads_to_the_page_that_was_asked_for_whatever_its_name_is(stranger: TestClient) -> None:
    to_login = stranger.get("/groups/a%3Fb%20c?x=1").headers["location"]
    following = parse_qs(urlsplit(to_login).query)["next"][0]
    answer = stranger.post("/login", data={"secret": TOKEN, "next": following})
    assert answer.headers["location"] == "/groups/a%3Fb%20c?x=1"


@pytest.mark.parametrize(
    "address", ["//evil.example", "https://evil.example", "/\\evil.example", "x", "/\n/e"]
)
def test_a_login_leads_to_no_other_site(stranger: TestClient, address: str) -> None:
    answer = stranger.post("/login", data={"secret": TOKEN, "next": address})
    assert answer.headers["location"] == "/"


def test_the_cookie_is_for_this_console_alone(stranger: TestClient) -> None:
    cookie = stranger.post("/login", data={"secret": TOKEN}).headers["set-cookie"]
    assert cookie.startswith("ottla_console_8080=")
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie


def test_a_wrong_token_is_refused_and_after_five_the_right_one_too_for_a_minute(broker: Broker) -> None:
    clock = Clock()
    with Visitor.of(settings_for(broker), clock=clock) as visitor:
        for _ in range(logins.FAILURES_MAX):
            assert visitor.log_in("wrong").status_code == 403
        answer = visitor.log_in(TOKEN)
        assert answer.status_code == 429
        assert "Try again in 60 s" in answer.text
        clock.now_s += 60
        assert visitor.log_in(TOKEN).status_code == 303


@pytest.mark.parametrize("refreshes", [False, True])
def test_a_session_ends_when_nobody_clicks_whatever_refreshes_by_itself(
    broker: Broker, refreshes: bool
) -> None:
    clock = Clock()
    with Visitor.of(settings_for(broker), clock=clock) as visitor:
        visitor.log_in(TOKEN)
        for _ in range(3):
            clock.now_s += sessions.IDLE_S / 2
            visitor.browser.get("/", headers={"x-refresh": "1"} if refreshes else {})
        assert visitor.browser.get("/").status_code == (303 if refreshes else 200)


def test_a_session_ends_after_a_day_however_busy_it_is(broker: Broker) -> None:
    clock = Clock()
    with Visitor.of(settings_for(broker), clock=clock) as visitor:
        visitor.log_in(TOKEN)
        while clock.now_s < 1000 + sessions.LIFE_S:
            assert visitor.browser.get("/").status_code == 200
            clock.now_s += sessions.IDLE_S / 2
        clock.now_s += 1
        assert visitor.browser.get("/").status_code == 303


def test_who_logs_out_is_out(visitor: Visitor) -> None:
    assert visitor.browser.get("/").status_code == 200
    visitor.send("/logout")
    assert visitor.browser.get("/").status_code == 303


def test_old_sessions_make_room_for_new_ones() -> None:
    ended: list[sessions.Session] = []
    clock = Clock()
    held = sessions.Sessions(clock, ended.append)
    cluster: Callable[[], object] = object  # nobody looks at it
    first = held.start("a", cluster)  # type: ignore[arg-type]
    for _ in range(sessions.SESSIONS_MAX):
        clock.now_s += 1
        held.start("b", cluster)  # type: ignore[arg-type]
    assert ended == [first]
    assert held.find(first.key) is None
