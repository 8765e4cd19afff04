"""Groups in the console: lag, members, reset with its plan, deletion."""

import re

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.console.test_topics import send
from tests.console.visitor import Visitor
from tests.support.waiting import wait_for

from ottla import Broker
from ottla.console.figures import from_part, part


def commit(broker: Broker, group: str, topic: str, offset: int) -> None:
    consumer = Consumer(broker.client_config | {"group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def test_a_group_is_listed_with_its_lag_and_shown_with_its_positions(
    visitor: Visitor, broker: Broker, fresh: str
) -> None:
    broker.create_topic(fresh)
    send(broker, fresh, 10)
    commit(broker, fresh, fresh, 4)
    page = visitor.open(f"/groups/{fresh}")
    assert "Lag 6" in page
    assert "nobody" in page

    def is_listed() -> bool:
        visitor.session.cluster.changed()
        return fresh in visitor.open("/groups")

    wait_for(is_listed, what="the group in the list")
    assert fresh in visitor.open(f"/topics/{fresh}/readers")


def test_a_reset_shows_its_plan_then_does_it(visitor: Visitor, broker: Broker, fresh: str) -> None:
    broker.create_topic(fresh)
    send(broker, fresh, 10)
    commit(broker, fresh, fresh, 4)
    address = f"/groups/{fresh}/reset"
    assert "Where to" in visitor.open(address)
    plan = visitor.send(address, topic=fresh, goal="earliest").text
    assert "4 records will be read again" in plan
    assert "Lag 6" in visitor.open(f"/groups/{fresh}")
    assert "Lag 10" in visitor.send_and_follow(address, topic=fresh, goal="earliest", confirmed="1")
    plan = visitor.send(address, goal="offset", **{"value-offset": "99"}).text
    assert "10 records will never be read by this group" in plan
    assert "after the end, 10, which is taken instead" in plan
    assert "Lag 7" in visitor.send_and_follow(address, goal="shift", **{"value-shift": "3"}, confirmed="1")


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"goal": "nowhere"}, "say where to"),
        ({"goal": "offset", "value-offset": "x"}, "is no number"),
        ({"goal": "time", "value-time": "soon"}, "is no time"),
        ({"goal": "time"}, "say since when"),
        ({"goal": "time", "value-time": "9" * 400 + "d"}, "is no time"),
        ({"goal": "earliest", "topic": "no-such-topic"}, "there is no topic"),
        ({"goal": "earliest", "partition": "0"}, "choose the topic"),
        ({"goal": "earliest", "topic": "any", "partition": "O"}, "is no partition"),
    ],
)
def test_a_reset_that_makes_no_sense_is_said(
    visitor: Visitor, broker: Broker, fresh: str, fields: dict[str, str], sentence: str
) -> None:
    broker.create_topic(fresh)
    commit(broker, fresh, fresh, 0)
    answer = visitor.send(f"/groups/{fresh}/reset", **fields)
    assert answer.status_code >= 400
    assert sentence in answer.text


def test_a_plan_for_two_hours_ago_is_carried_out_for_the_moment_that_it_was_shown_for(
    visitor: Visitor, broker: Broker, fresh: str
) -> None:
    broker.create_topic(fresh)
    commit(broker, fresh, fresh, 0)
    fields = {"goal": "time", "value-time": "2h"}
    plan = visitor.send(f"/groups/{fresh}/reset", **fields).text
    moment = re.search(r'name="value-time" value="([^"]+)"', plan)
    assert moment is not None
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", moment[1])


def test_a_group_with_members_is_not_reset(visitor: Visitor, broker: Broker, fresh: str) -> None:
    broker.create_topic(fresh)
    consumer = Consumer(broker.client_config | {"group.id": fresh})
    consumer.subscribe([fresh])
    try:
        wait_for(lambda: consumer.poll(0.1) or consumer.assignment(), what="the assignment")
        assert "1 member now" in visitor.open(f"/groups/{fresh}/reset")
        answer = visitor.send(f"/groups/{fresh}/reset", topic=fresh, goal="latest")
        assert "stop them first" in answer.text
        members = visitor.open(f"/groups/{fresh}/members")
        assert f"{fresh}: 0" in members
    finally:
        consumer.close()


def test_a_group_is_deleted_after_what_that_means(visitor: Visitor, broker: Broker, fresh: str) -> None:
    broker.create_topic(fresh)
    commit(broker, fresh, fresh, 0)
    assert "is forgotten. No record is deleted" in visitor.open(f"/groups/{fresh}/delete")
    visitor.send_and_follow(f"/groups/{fresh}/delete")
    visitor.open(f"/groups/{fresh}", status=404)


@pytest.mark.parametrize("suffix", ["/slash", "%2F", "?&#", " ü\"'<b>", "..", "%"])
def test_a_group_may_have_any_name(visitor: Visitor, broker: Broker, fresh: str, suffix: str) -> None:
    name = fresh + suffix
    broker.create_topic(fresh)
    commit(broker, name, fresh, 0)
    assert "Committed" in visitor.open(f"/groups/{part(name)}")
    assert visitor.send(f"/groups/{part(name)}/delete").status_code == 303


@pytest.mark.parametrize("name", [".", "..", "a/b", "100%", "%2F", "a b"])
def test_a_name_is_the_same_after_its_way_through_an_address(name: str) -> None:
    from urllib.parse import unquote

    assert from_part(unquote(part(name))) == name
    assert unquote(part(name)) not in {".", ".."}
    assert "/" not in unquote(part(name))
