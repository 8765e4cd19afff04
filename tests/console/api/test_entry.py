"""Who the API lets in: the token, users of the cluster, and a browser with its form's token."""

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient
from tests.console.api.script import Script
from tests.console.test_login import Clock
from tests.console.visitor import TOKEN, Visitor, settings_for

from ottla import Broker
from ottla.console import logins
from ottla.console.api import callers
from ottla.console.api.callers import Callers, Credentials
from ottla.console.cluster.view import ClusterView
from ottla.console.logins import Attempts, RefusedError

PASSWORD = "a password: for alice"
BEARER = {"authorization": f"Bearer {TOKEN}"}


def test_who_says_nothing_or_something_wrong_is_not_in(stranger: TestClient) -> None:
    answers = [
        stranger.get("/api/v1/topics", headers=headers)
        for headers in (
            {},
            {"authorization": "Bearer wrong"},
            {"authorization": "Bearer"},
            {"authorization": "Basic eDp5"},
        )
    ]
    assert [answer.status_code for answer in answers] == [401] * 4
    assert all(answer.headers["www-authenticate"] == 'Bearer realm="ottla"' for answer in answers)
    assert stranger.post("/api/v1/topics", json={"name": "x"}).status_code == 401
    assert stranger.get("/api/v1/topics", headers=BEARER).status_code == 200
    assert stranger.get("/api/v1/topics").status_code == 401, "it was not remembered"


def test_failed_logins_of_scripts_and_people_count_together(broker: Broker) -> None:
    clock = Clock()
    with Visitor.of(settings_for(broker), clock=clock) as visitor:
        assert visitor.browser.get("/api/v1/topics", headers=BEARER).status_code == 200
        for _ in range(logins.FAILURES_MAX - 1):
            visitor.browser.get("/api/v1/topics", headers={"authorization": "Bearer wrong"})
        assert visitor.log_in("wrong").status_code == 403
        answer = visitor.browser.get("/api/v1/topics", headers=BEARER)
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "60")
        assert visitor.log_in(TOKEN).status_code == 429
        clock.now_s += 60
        assert visitor.browser.get("/api/v1/topics", headers=BEARER).status_code == 200


def test_a_browser_needs_the_token_of_its_session_for_changes(visitor: Visitor, fresh: str) -> None:
    browser = visitor.browser
    assert browser.get("/api/v1/topics").status_code == 200
    assert browser.post("/api/v1/topics", json={"name": fresh}).status_code == 403
    assert browser.get(f"/api/v1/topics/{fresh}").status_code == 404
    headers = {"x-csrf-token": visitor.csrf}
    assert browser.post("/api/v1/topics", json={"name": fresh}, headers=headers).status_code == 201
    other_site = headers | {"origin": "https://evil.example"}
    assert browser.delete(f"/api/v1/topics/{fresh}", headers=other_site).status_code == 403
    assert browser.delete(f"/api/v1/topics/{fresh}", headers=headers).status_code == 204


def test_a_read_only_console_changes_nothing_for_scripts(broker: Broker, fresh: str) -> None:
    with Script(Visitor.of(settings_for(broker, is_read_only=True)), headers=BEARER) as script:
        script.get("/topics")
        assert "read-only" in script.post("/topics", {"name": fresh}, 403)["message"]
        script.delete("/topics/anything", 403)
        script.get(f"/topics/{fresh}", 404)


# -- users of the cluster ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def secured() -> Iterator[Broker]:
    with Broker(secure=True) as running:
        running.create_topic("orders")
        yield running


def test_a_script_acts_as_the_user_that_it_names(secured: Broker) -> None:
    security = secured._security
    assert security is not None
    with Visitor.of(settings_for(secured)) as visitor:
        root = Script(visitor, auth=(security.username, security.password))
        assert [topic["name"] for topic in root.get("/topics")["topics"]] == ["orders"]
        visitor.log_in(security.password, security.username)
        visitor.send("/users", user="alice", password=PASSWORD)
        visitor.browser.cookies.clear()
        alice = Script(visitor, auth=("alice", PASSWORD))
        assert alice.get("/topics")["topics"] == []
        alice.get("/topics/orders", 404)
        alice.delete("/topics/orders", 404)
        refused = alice.post("/topics", {"name": "mine"}, 403)
        assert refused["kafka_error"] in {"TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED"}
        root.get("/topics/orders")
        answer = visitor.browser.get("/api/v1/topics", auth=("alice", "wrong"))
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, 'xBasic realm="ottla"')
        assert visitor.browser.get("/api/v1/topics", headers=BEARER).status_code == 401


class CountedLogin:
    """Lets in whoever has the password, and counts what is open."""

    def __init__(self) -> None:
        self.logins, self.left = 0, 0

    def log_in(self, user: str, secret: str) -> tuple[str, ClusterView]:
        if secret != PASSWORD:
            raise RefusedError("no")
        self.logins += 1
        return user, object()  # type: ignore[return-value]  # nobody looks at it

    def leave(self, cluster: ClusterView) -> None:
        self.left += 1

    def close(self) -> None:
        pass


def test_who_was_let_in_is_kept_for_a_moment_and_closed_when_nobody_uses_it() -> None:
    clock, login = Clock(), CountedLogin()
    held = Callers(login, Attempts(clock), clock)
    alice = Credentials("alice", PASSWORD)
    for _ in range(3):
        with held.entered(alice, "here") as session:
            assert session.user == "alice"
    assert (login.logins, login.left) == (1, 0)
    with held.entered(Credentials("bob", PASSWORD), "here") as session:
        assert session.user == "bob"
    with held.entered(alice, "here"):
        clock.now_s += callers.KEPT_S
        with held.entered(alice, "here"):
            assert login.logins == 3
        held.sweep()
        assert login.left == 1, "bob, but not what is in use"
    assert login.left == 2
    with held.entered(alice, "here"):
        assert login.logins == 3
    held.end_all()
    assert login.left == login.logins


def test_so_many_callers_are_kept_and_others_are_let_in_for_one_request() -> None:
    clock, login = Clock(), CountedLogin()
    held = Callers(login, Attempts(clock), clock)
    for number in range(callers.CALLERS_MAX + 2):
        with held.entered(Credentials(f"user-{number}", PASSWORD), "here"):
            pass
    assert login.left == 2
