"""Who gets into the console, and for how long."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from starlette.testclient import TestClient
from tests.console.visitor import TOKEN, Visitor, settings_for
from tests.support.ports import free_ports

from ottla import Broker
from ottla.client.properties import client_properties
from ottla.console import logins, sessions
from ottla.console.app import WORKERS
from ottla.console.records import tail
from ottla.console.settings import ConsoleSettings


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


def with_users(bootstrap: str) -> ConsoleSettings:
    """Of a cluster that has users, as far as the console was told."""
    properties = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "nobody",
        "sasl.password": "nothing",
    }
    return ConsoleSettings(client_properties(properties), port=8080)


@pytest.mark.parametrize("is_logout", [True, False], ids=["logout", "time"])
def test_a_live_tail_ends_with_its_session(
    broker: Broker, fresh: str, is_logout: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topic(fresh)
    clock, has_begun, look = Clock(), threading.Event(), tail._look

    def looked(*given: Any) -> tail.Came:
        has_begun.set()
        return look(*given)

    monkeypatch.setattr(tail, "_look", looked)
    with Visitor.of(settings_for(broker), clock=clock) as visitor, ThreadPoolExecutor() as pool:
        visitor.log_in(TOKEN)
        tailed = pool.submit(visitor.browser.get, f"/topics/{fresh}/records/tail")
        assert has_begun.wait(30)
        if is_logout:
            visitor.send("/logout")
        else:
            clock.now_s += sessions.LIFE_S + 1
            visitor.console.sessions.sweep()
        assert tailed.result(30).text.endswith('event: problem\ndata: "You are logged out."\n\n')


def test_a_session_that_nobody_asks_for_any_more_is_ended_all_the_same() -> None:
    ended: list[sessions.Session] = []
    clock = Clock()
    held = sessions.Sessions(clock, ended.append)
    first = held.start("a", object())  # type: ignore[arg-type]
    clock.now_s += sessions.IDLE_S + 1
    held.sweep()
    assert (ended, first.is_ended) == ([first], True)


def test_a_cluster_that_does_not_answer_is_no_failed_login() -> None:
    (port,) = free_ports(1)
    with Visitor.of(with_users(f"127.0.0.1:{port}")) as visitor:
        for _ in range(logins.FAILURES_MAX + 1):
            answer = visitor.log_in("a password", "alice")
            assert (answer.status_code, "no broker answers" in answer.text) == (502, True)
        problem = visitor.browser.get("/api/v1/topics", auth=("alice", "a password"))
        assert (problem.status_code, "no broker answers" in problem.json()["message"]) == (502, True)


def test_a_cluster_that_is_slow_lets_nobody_in_unseen(
    monkeypatch: pytest.MonkeyPatch, broker: Broker
) -> None:
    monkeypatch.setattr(logins, "probe", lambda _: False)
    with Visitor.of(with_users(broker.bootstrap_servers)) as visitor:
        assert visitor.log_in("a password", "alice").status_code == 502
        assert visitor.browser.get("/").status_code == 303


def test_guesses_that_come_all_at_once_are_counted(broker: Broker) -> None:
    with Visitor.of(settings_for(broker)) as visitor, ThreadPoolExecutor(40) as pool:
        answers = pool.map(lambda _: visitor.browser.post("/login", data={"secret": "wrong"}), range(60))
        refused = [answer.status_code for answer in answers].count(403)
        assert logins.FAILURES_MAX <= refused <= logins.FAILURES_MAX + WORKERS


def test_who_is_not_in_cannot_send_much(stranger: TestClient) -> None:
    assert stranger.post("/login", data={"secret": "x" * 100_000}).status_code == 413
    headers = {"authorization": "Bearer wrong", "content-type": "application/json"}
    answer = stranger.post("/api/v1/topics", headers=headers, content=b"{" * (9 << 20))
    assert answer.status_code == 401, "it was refused before it was read"


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
