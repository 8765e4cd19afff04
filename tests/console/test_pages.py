"""The other pages: each opens, says what is there, and what a console that is read-only refuses."""

import json
import logging
import threading
import time

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.console.visitor import TOKEN, Seen, Visitor, settings_for
from tests.support.waiting import wait_for

from ottla import Broker
from ottla.console.figures import part
from ottla.console.routes import ROUTES
from ottla.shell.log_lines import JsonLines, TextLines

FIXED = [route.path for route in ROUTES if not route.is_change and "{" not in route.path]


@pytest.mark.parametrize("path", FIXED)
def test_every_page_opens_and_every_link_on_it_leads_somewhere(visitor: Visitor, path: str) -> None:
    page = visitor.open(path)
    for link in {link.partition("#")[0] for link in page.links} - {""}:
        assert visitor.browser.get(link).status_code in {200, 303}, link


def test_a_broker_is_shown_with_its_disk_and_settings(visitor: Visitor) -> None:
    def has_directory() -> bool:
        return "fine" in visitor.open("/brokers/1")

    wait_for(has_directory, what="the log directory")
    assert "up" in visitor.open("/brokers")
    settings = visitor.open("/brokers/1/settings")
    assert "log.retention.ms" in settings
    assert "Roll a segment" in settings
    visitor.open("/brokers/99", status=404)


def test_a_setting_of_a_broker_is_changed_and_given_back(visitor: Visitor) -> None:
    address = "/brokers/1/settings"
    new = {"set:log.retention.ms": "123456789"}
    assert "123456789" in visitor.send(address, **new).text
    visitor.send_and_follow(address, **new, confirmed="1")
    assert "123456789" in visitor.open(address).html
    visitor.send_and_follow(address, drop="log.retention.ms", confirmed="1")
    assert "123456789" not in visitor.open(address).html
    assert visitor.send(address, **{"set:node.id": "7"}).status_code == 400


def test_the_search_leads_to_the_only_hit_and_lists_several(
    visitor: Visitor, broker: Broker, fresh: str
) -> None:
    broker.create_topic(f"{fresh}-a")
    broker.create_topic(f"{fresh}-b")
    visitor.session.cluster.changed()
    assert (
        visitor.browser.get("/find", params={"q": f"{fresh}-a"}).headers["location"] == f"/topics/{fresh}-a"
    )
    page = visitor.open(f"/find?q={fresh}")
    assert "2 found" in page
    assert "has that in its name" in visitor.open("/find?q=no-such-thing-anywhere")


def test_a_read_only_console_changes_nothing_and_offers_nothing(broker: Broker, fresh: str) -> None:
    broker.create_topic(fresh)
    with Visitor.of(settings_for(broker, is_read_only=True)) as visitor:
        visitor.log_in(TOKEN)
        for route in ROUTES:
            if route.is_change:
                path = route.path.format(topic=fresh, group="g", broker="1")
                answer = visitor.send(path, name=fresh, confirmed="1", partitions="9")
                assert (answer.status_code, "read-only" in answer.text) == (403, True), path
        page = visitor.open(f"/topics/{fresh}")
        assert "Delete" not in page
        assert "data-setting=" not in visitor.open(f"/topics/{fresh}/settings").html


def test_a_form_without_the_token_of_its_session_changes_nothing(
    visitor: Visitor, broker: Broker, fresh: str
) -> None:
    broker.create_topic(fresh)
    for token in ("", "another"):
        answer = visitor.browser.post(f"/topics/{fresh}/delete", data={"name": fresh, "csrf": token})
        assert (answer.status_code, "another session" in answer.text) == (403, True)
    assert visitor.browser.get(f"/topics/{fresh}").status_code == 200


def test_who_changes_what_is_in_the_audit_log_whether_it_is_done_or_refused(
    visitor: Visitor, fresh: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ottla.console.audit")
    visitor.send("/new-topic", name=fresh, confirmed="1")
    visitor.send("/new-topic", name=fresh, confirmed="1")
    lines = [record.message for record in caplog.records if record.name == "ottla.console.audit"]
    assert lines[0] == f"token from testclient creates topic {fresh}: done"
    assert lines[1].startswith(f"token from testclient creates topic {fresh}: refused: ")
    assert "already exists" in lines[1]


def test_an_audit_line_says_one_thing_whatever_things_are_called(
    visitor: Visitor, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """A group may have a name that looks like the end of a line, and the next one."""
    caplog.set_level(logging.INFO, "ottla.console.audit")
    broker.create_topic("audited")
    name = "x: done\n2030-01-01 INFO ottla.console.audit: token from 10.0.0.1 deletes topic orders"
    consumer = Consumer(broker.client_config | {"group.id": name})
    consumer.commit(offsets=[TopicPartition("audited", 0, 0)], asynchronous=False)
    consumer.close()
    assert visitor.send(f"/groups/{part(name)}/delete").status_code == 303
    (record,) = [record for record in caplog.records if record.name == "ottla.console.audit"]
    for is_terminal in (False, True):
        assert "\n" not in TextLines(is_terminal=is_terminal).format(record)
    line = json.loads(JsonLines().format(record))
    assert (line["principal"], line["host"], line["allowed"]) == ("User:token", "testclient", True)
    assert line["on"] == f"deletes group {name}"


@pytest.mark.parametrize(
    ("path", "near"),
    [
        ("/topics/no-such", "/topics"),
        ("/topics/here/records/0/99", "/topics/here/records"),
        ("/topics/here/records/7/0", "/topics/here/records"),
        ("/groups/no-such", "/groups"),
        ("/brokers/77", "/brokers"),
        ("/pipelines/no-such", "/pipelines"),
        ("/topics/here/records?at=yesterday", "/topics/here/records"),
    ],
)
def test_a_page_that_is_not_there_leads_to_one_that_is(
    visitor: Visitor, broker: Broker, path: str, near: str
) -> None:
    if not visitor.session.cluster.snapshot(having="here").topics.get("here"):
        broker.create_topic("here")
    content = visitor.open(path, status=400 if "?" in path else 404).html.partition("<main")[2]
    assert Seen(content).links == [near, "/"]


def test_what_is_too_large_is_no_form(visitor: Visitor) -> None:
    assert visitor.send("/new-topic", name="x" * (9 << 20)).status_code == 413
    assert visitor.browser.post("/new-topic", content=b"\xff\xfe").status_code == 400


def test_quotas_come_and_go(visitor: Visitor, fresh: str) -> None:
    fields = {"kind": "user", "name": fresh, "key": "producer_byte_rate"}
    assert fresh in visitor.send_and_follow("/quotas", **fields, value="2000000")
    assert "2 MB/s" in visitor.open("/quotas")
    assert fresh not in visitor.send_and_follow("/quotas", **fields, remove="1").html.partition("<table")[2]
    for wrong in ({"value": "much"}, {"value": "-1"}, {"value": "1", "key": "no_such"}):
        assert visitor.send("/quotas", **fields | wrong).status_code == 400


def test_users_come_and_go(visitor: Visitor, fresh: str) -> None:
    assert fresh in visitor.send_and_follow("/users", user=fresh, password="a long password")
    assert visitor.send("/users", user=fresh, password="short").status_code == 400
    assert "Nobody can log in as" in visitor.send("/users/remove", user=fresh).text
    page = visitor.send_and_follow("/users/remove", user=fresh, confirmed="1")
    assert f"User {fresh} is removed." in page


def test_a_cluster_without_an_authorizer_says_so_where_acls_would_be(visitor: Visitor) -> None:
    assert "the broker has no authorizer" in visitor.open("/acls")


def test_a_page_that_waits_holds_up_no_other(visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that is stuck is one of many."""
    let_go = threading.Event()
    monkeypatch.setattr(type(visitor.session.cluster), "reassignments", lambda _self: let_go.wait(30) and [])
    slow = threading.Thread(target=lambda: visitor.browser.get("/brokers"))
    slow.start()
    began = time.monotonic()
    visitor.open("/topics")
    let_go.set()
    slow.join(30)
    assert time.monotonic() - began < 30
