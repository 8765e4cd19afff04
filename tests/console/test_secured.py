"""A console beside a secured broker: people log in as its users, and may do what these may do."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from tests.console.api.everyday import ask_for_everything
from tests.console.api.script import Script
from tests.console.visitor import Visitor, settings_for
from tests.support.waiting import wait_for

from ottla import Broker

PASSWORD = "a password for alice"


@pytest.fixture(scope="module")
def secured() -> Iterator[Broker]:
    with Broker(secure=True) as running:
        running.create_topic("orders")
        running.create_topic("secrets")
        yield running


@pytest.fixture
def admin(secured: Broker) -> Iterator[Visitor]:
    security = secured._security
    assert security is not None
    with Visitor.of(settings_for(secured)) as visitor:
        assert visitor.log_in(security.password, security.username).status_code == 303
        visitor.send("/users", user="alice", password=PASSWORD)
        yield visitor


def allow(admin: Visitor, operation: str, name: str = "orders", pattern: str = "literal") -> dict[str, str]:
    words = {
        "principal": "User:alice", "operation": operation, "resource": "Topic", "name": name,
        "pattern": pattern, "permission": "Allow", "host": "*",
    }  # fmt: skip
    page = admin.send_and_follow("/acls", **words)
    assert "User:alice" in page
    return words


def test_who_has_no_password_of_the_cluster_is_not_in(secured: Broker) -> None:
    with Visitor.of(settings_for(secured)) as visitor:
        answer = visitor.log_in("wrong", "admin")
        assert (answer.status_code, "does not let you in" in answer.text) == (403, True)
        assert visitor.log_in("", "admin").status_code == 403
        assert visitor.browser.get("/").status_code == 303


def test_a_user_without_rights_sees_and_changes_nothing(admin: Visitor) -> None:
    with admin.another() as alice:
        assert alice.log_in(PASSWORD, "alice").status_code == 303
        assert "There are no topics yet" in alice.open("/topics")
        alice.open("/topics/orders", status=404)
        answer = alice.send("/new-topic", name="mine", confirmed="1")
        assert answer.status_code >= 400
        assert "not allowed" in answer.text
        for path, fields in (
            ("/users", {"user": "bob", "password": PASSWORD}),
            ("/users/remove", {"user": "admin", "confirmed": "1"}),
            ("/quotas", {"kind": "user", "name": "bob", "key": "producer_byte_rate", "value": "1"}),
            ("/brokers/1/settings", {"set:log.retention.ms": "1", "confirmed": "1"}),
        ):
            assert alice.send(path, **fields).status_code >= 400, path
        for path in ("/users", "/acls", "/quotas"):
            assert "not allowed" in alice.open(path)
    assert "bob" not in admin.open("/users")


def test_scripts_do_everything_as_a_user_with_all_rights(admin: Visitor, secured: Broker) -> None:
    security = secured._security
    assert security is not None
    script = Script(admin, auth=(security.username, security.password))
    ask_for_everything(script, secured.client_config, "by-script")


def test_a_script_of_a_user_sees_and_changes_no_more_than_the_cluster_lets_that_user(admin: Visitor) -> None:
    """The first time with no rights at all, then with the right to read one topic."""
    admin.send_and_follow("/topics/orders/records/new", topic="orders", value="an order", key_null="1")
    alice = Script(admin, auth=("alice", PASSWORD))
    assert (alice.get("/topics?internal=true")["topics"], alice.get("/groups")["groups"]) == ([], [])
    changes: list[tuple[str, str, Any]] = [
        ("PATCH", "/topics/orders", {"partitions": 9}),
        ("PATCH", "/topics/orders/configs", {"set": {"retention.ms": "1"}}),
        ("POST", "/topics/orders/records", {"records": [{"value": "forged"}]}),
        ("DELETE", "/topics/orders/records", None),
        ("DELETE", "/topics/orders", None),
        ("POST", "/topics", {"name": "mine"}),
        ("POST", "/topics", {"name": "mine", "dry_run": True}),
        ("PATCH", "/brokers/1/configs", {"set": {"log.retention.ms": "1"}}),
    ]
    for rights, status in (((), 404), (("Describe", "Read"), 403)):
        allowed = [allow(admin, operation) for operation in rights]
        sees_it = bool(rights)
        wait_for(lambda sees=sees_it: names(alice) == (["orders"] if sees else []), what="what alice sees")
        for method, path, body in changes:
            wanted = 403 if status == 403 or not path.startswith("/topics/orders") else status
            problem = alice.ask(method, path, wanted, **({"json": body} if body else {}))
            assert wanted == 404 or problem["kafka_error"].endswith("_AUTHORIZATION_FAILED"), problem
        for path in ("", "/records", "/records/0/0"):
            alice.get(f"/topics/orders{path}", 200 if sees_it else 404)
        for path in ("/topics/orders/configs", "/brokers/1/configs", "/groups/any"):
            assert alice.client.get(f"/api/v1{path}", auth=("alice", PASSWORD)).status_code in {403, 404}
        alice.get("/topics/secrets", 404)
    for words in allowed:
        admin.send_and_follow("/acls/remove", **words, confirmed="1")
    root = Script(admin)
    admin.session.cluster.changed()
    assert len(root.get("/topics/orders")["partitions"]) == 1
    assert [record["value"] for record in root.get("/topics/orders/records")["records"]] == ["an order"]
    assert "mine" not in names(root)


def names(script: Script) -> list[str]:
    return [topic["name"] for topic in script.get("/topics")["topics"]]


def test_what_an_acl_allows_is_there_until_it_is_removed(admin: Visitor) -> None:
    describing = allow(admin, "Describe", "ord", "prefixed")
    with admin.another() as alice:
        alice.log_in(PASSWORD, "alice")
        page = alice.open("/topics")
        assert "orders" in page
        assert "secrets" not in page
        answer = alice.send("/topics/orders/delete", name="orders")
        assert answer.status_code >= 400
        assert "Remove this ACL?" in admin.send("/acls/remove", **describing).text
        admin.send_and_follow("/acls/remove", **describing, confirmed="1")
        alice.session.cluster.changed()
        assert "orders" not in alice.open("/topics")
    assert "orders" in admin.open("/topics")


@pytest.mark.parametrize(
    "wrong", [{"operation": "Fly"}, {"principal": ""}, {"name": ""}, {"resource": "Moon"}]
)
def test_an_acl_that_cannot_be_is_refused(admin: Visitor, wrong: dict[str, str]) -> None:
    words = {"principal": "bob", "operation": "Read", "resource": "Topic", "name": "x", "pattern": "literal"}
    answer = admin.send("/acls", **words | {"permission": "Allow"} | wrong)
    assert answer.status_code == 400
    assert "bob" not in admin.open("/acls").html.partition("<table")[2].partition("</table>")[0]


def test_the_form_of_an_acl_begins_with_little_and_keeps_what_was_chosen(admin: Visitor) -> None:
    chosen = re.findall(r"<option selected>(\w+)", admin.open("/acls").html)
    assert chosen == ["Allow", "Read", "Topic", "literal"]
    words = {"principal": "bob", "operation": "Write", "resource": "Group", "pattern": "prefixed"}
    answer = admin.send("/acls", **words, permission="Deny", name="")
    assert re.findall(r"<option selected>(\w+)", answer.text) == ["Deny", "Write", "Group", "prefixed"]


def test_records_are_read_and_sent_with_the_rights_of_who_is_logged_in(admin: Visitor) -> None:
    admin.send_and_follow("/topics/secrets/records/new", topic="secrets", value="the plan", key_null="1")
    assert "the plan" in admin.open("/topics/secrets/records")
    allow(admin, "Describe", "secrets")
    with admin.another() as alice:
        alice.log_in(PASSWORD, "alice")
        for path in ("", "/0/0", "?q=plan&plain=1"):
            answer = alice.browser.get(f"/topics/secrets/records{path}")
            assert answer.status_code >= 400, path
            assert "the plan" not in answer.text
        assert "the plan" not in alice.browser.get("/topics/secrets/records/search?q=plan").text
        allow(admin, "Read", "secrets")
        assert "the plan" in alice.open("/topics/secrets/records")
        answer = alice.send("/topics/secrets/records/new", topic="secrets", value="another plan")
        assert answer.status_code >= 400
        assert "another plan" not in admin.open("/topics/secrets/records")
