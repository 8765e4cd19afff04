"""Topics in the console: shown, created, changed, emptied and deleted, with the consequences first."""

import pytest
from confluent_kafka import Producer
from tests.console.visitor import Seen, Visitor
from tests.support.waiting import wait_for

from ottla import Broker
from ottla.base.command_error import CommandError
from ottla.console.actions import topics as actions
from ottla.console.pages import topics


def send(broker: Broker, topic: str, count: int) -> None:
    producer = Producer(broker.client_config)
    for number in range(count):
        producer.produce(topic, f"value {number}", f"key {number}")
    assert producer.flush(30) == 0


def test_a_topic_is_created_once_it_was_said_what_will_be(visitor: Visitor, fresh: str) -> None:
    wanted = {
        "name": fresh,
        "partitions": "3",
        "policy": "compact",
        "retention": "2d",
        "configs": "segment.ms=60000",
    }
    plan = visitor.send("/new-topic", **wanted)
    assert plan.status_code == 200
    assert f"Create {fresh}?" in plan.text
    assert fresh not in visitor.open("/topics")
    page = visitor.send_and_follow("/new-topic", **wanted, confirmed="1")
    assert f"Topic {fresh} is created." in page
    assert "Partitions 3" in page
    settings = visitor.open(f"/topics/{fresh}/settings").html
    assert 'value="172800000"' in settings
    assert 'value="compact"' in settings


def test_a_topic_that_cannot_be_is_refused_before_the_button(visitor: Visitor, fresh: str) -> None:
    for wanted, sentence in (
        ({"name": fresh, "replicas": "3"}, "eplication factor"),
        ({"name": fresh, "configs": "no.such=1"}, "no.such"),
        ({"name": fresh, "configs": "nonsense"}, "KEY=VALUE"),
        ({"name": fresh, "partitions": "many"}, "no number of partitions"),
        ({"name": fresh, "retention": "long"}, "takes a time with its unit"),
        ({"name": ""}, "a topic has a name"),
    ):
        answer = visitor.send("/new-topic", **wanted)
        assert answer.status_code >= 400
        assert sentence in answer.text, answer.text
    assert fresh not in visitor.open("/topics")


def test_the_list_shows_records_and_sizes_once_they_are_measured(
    visitor: Visitor, broker: Broker, fresh: str
) -> None:
    broker.create_topic(fresh, 2)
    send(broker, fresh, 1234)

    def is_measured() -> bool:
        visitor.session.cluster.changed()
        page = visitor.open(f"/topics/{fresh}")
        return "Records 1,234" in page and "Size 0 B" not in page

    wait_for(is_measured, what="the measurement")
    assert "1,234" in visitor.open("/topics")


def test_partitions_grow_and_never_shrink(visitor: Visitor, broker: Broker, fresh: str) -> None:
    broker.create_topic(fresh, 2)
    assert "has 2 partitions. They can grow" in visitor.open(f"/topics/{fresh}/partitions")
    answer = visitor.send(f"/topics/{fresh}/partitions", partitions="2")
    assert (answer.status_code, "they can only grow" in answer.text) == (400, True)
    assert "has 5 partitions." in visitor.send_and_follow(f"/topics/{fresh}/partitions", partitions="5")


def test_a_setting_is_changed_after_its_consequences_and_given_back(
    visitor: Visitor, broker: Broker, fresh: str
) -> None:
    broker.create_topic(fresh)
    address = f"/topics/{fresh}/settings"
    plan = visitor.send(address, **{"set:retention.ms": "1000"})
    assert "Records beyond the new limit are deleted soon" in plan.text
    assert "topic" not in _source(visitor, address, "retention.ms")
    visitor.send_and_follow(address, **{"set:retention.ms": "1000", "confirmed": "1"})
    assert "topic" in _source(visitor, address, "retention.ms")
    both = {"set:retention.ms": "1000", "drop": "retention.ms"}  # as a browser without JavaScript sends it
    assert "604800000" in visitor.send(address, **both).text
    visitor.send_and_follow(address, drop="retention.ms", confirmed="1")
    assert "topic" not in _source(visitor, address, "retention.ms")


def _source(visitor: Visitor, address: str, key: str) -> str:
    html = visitor.open(address).html
    row = html[html.index(f'data-key="{key}"') :]
    return row[: row.index("</tr>")].partition('<span class="chip')[2].partition("</span>")[0]


def test_of_very_many_topics_the_first_are_listed_and_the_others_found(
    visitor: Visitor, broker: Broker, fresh: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        broker.create_topic(f"{fresh}-{number}")
    monkeypatch.setattr(topics, "ROWS_MAX", 2)
    visitor.session.cluster.changed()
    assert "These are the first 2." in visitor.open("/topics")
    answer = visitor.browser.get("/find", params={"q": f"{fresh}-2"})
    assert answer.headers["location"] == f"/topics/{fresh}-2"


def test_a_form_that_failed_is_not_looked_at_again_by_itself(
    visitor: Visitor, broker: Broker, fresh: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That would send it once more, and nobody could read why it failed."""
    broker.create_topic(fresh)

    def fail(*_: object) -> None:
        raise CommandError("the cluster is tired")

    monkeypatch.setattr(actions, "empty", fail)
    answer = visitor.send(f"/topics/{fresh}/empty")
    assert (answer.status_code, "the cluster is tired" in answer.text) == (502, True)
    assert "data-refresh" not in answer.text
    assert f'href="/topics/{fresh}/empty">Back' in answer.text


def test_settings_that_cannot_be_are_refused(visitor: Visitor, broker: Broker, fresh: str) -> None:
    broker.create_topic(fresh)
    address = f"/topics/{fresh}/settings"
    assert visitor.send(address, **{"set:no.such": "1"}).status_code == 400
    assert "3600000 1 h" in Seen(visitor.send(address, **{"set:retention.ms": "1h"}).text)
    answer = visitor.send(address, **{"set:retention.ms": "1x"})
    assert (answer.status_code, "takes a time with its unit" in answer.text) == (400, True)
    answer = visitor.send(address, **{"set:retention.ms": "much", "confirmed": "1"})
    assert answer.status_code >= 400
    assert "Nothing was changed" in visitor.send_and_follow(address, **{"set:retention.ms": "604800000"})


def test_a_topic_is_deleted_by_whoever_writes_its_name(visitor: Visitor, broker: Broker, fresh: str) -> None:
    broker.create_topic(fresh)
    send(broker, fresh, 10)
    assert "gone for good" in visitor.open(f"/topics/{fresh}/delete")
    answer = visitor.send(f"/topics/{fresh}/delete", name="another")
    assert (answer.status_code, "Nothing was deleted" in answer.text) == (400, True)
    assert fresh in visitor.open("/topics")
    assert f"Topic {fresh} is deleted." in visitor.send_and_follow(f"/topics/{fresh}/delete", name=fresh)
    visitor.open(f"/topics/{fresh}", status=404)


def test_a_topic_is_emptied_and_stays(visitor: Visitor, broker: Broker, fresh: str) -> None:
    broker.create_topic(fresh)
    send(broker, fresh, 10)
    assert "The topic stays" in visitor.open(f"/topics/{fresh}/empty")
    visitor.send_and_follow(f"/topics/{fresh}/empty")

    def is_empty() -> bool:
        visitor.session.cluster.changed()
        return "Records 0" in visitor.open(f"/topics/{fresh}")

    wait_for(is_empty, what="the topic without records")


def test_nothing_of_a_name_is_taken_for_html(visitor: Visitor) -> None:
    answer = visitor.browser.get("/topics/%3Cscript%3Ealert(1)%3C%2Fscript%3E")
    assert answer.status_code == 404
    assert "<script>alert" not in answer.text
