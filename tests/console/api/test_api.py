"""What scripts do with topics, settings, records, groups and brokers; each answer fits the document."""

import json
import logging
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.console.api.everyday import ask_for_everything
from tests.console.api.script import Script
from tests.console.visitor import TOKEN
from tests.support.waiting import wait_for

from ottla import Broker
from ottla.console.api.openapi import document
from ottla.console.api.routes import ENDPOINTS


def send(script: Script, topic: str, *records: dict[str, Any]) -> list[dict[str, int]]:
    placed: list[dict[str, int]] = script.post(f"/topics/{topic}/records", {"records": records}, 201)[
        "records"
    ]
    return placed


def commit(broker: Broker, group: str, topic: str, offset: int) -> None:
    consumer = Consumer(broker.client_config | {"group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


@pytest.fixture(scope="module")
def untouched(broker: Broker) -> str:
    broker.create_topic("untouched")
    return "untouched"


def test_a_topic_is_created_listed_grown_and_deleted(script: Script, fresh: str) -> None:
    wanted = {"name": fresh, "partitions": 2, "configs": {"retention.ms": "1000"}}
    assert script.post("/topics", wanted | {"dry_run": True}, 201) == {"name": fresh, "created": False}
    script.get(f"/topics/{fresh}", 404)
    assert script.post("/topics", wanted, 201) == {"name": fresh, "created": True}
    problem = script.post("/topics", wanted, 409)
    assert (problem["kafka_error"], fresh in problem["message"]) == ("TOPIC_ALREADY_EXISTS", True)
    assert fresh in [topic["name"] for topic in script.get("/topics?limit=1000")["topics"]]
    assert len(script.get(f"/topics/{fresh}")["partitions"]) == 2
    assert len(script.patch(f"/topics/{fresh}", {"partitions": 5})["partitions"]) == 5
    assert script.patch(f"/topics/{fresh}", {"partitions": 5}, 400)["field"] == "partitions"
    script.delete(f"/topics/{fresh}")
    script.get(f"/topics/{fresh}", 404)
    script.delete(f"/topics/{fresh}", 404)


def test_a_long_list_is_read_in_pages_by_following_links(script: Script, fresh: str) -> None:
    names = {f"{fresh}-{number}" for number in range(5)}
    for name in names:
        script.post("/topics", {"name": name}, 201)
    link, listed = "/topics?limit=2&internal=true", []
    while link:
        page = script.get(link)
        assert 0 < len(page["topics"]) <= 2
        listed += [topic["name"] for topic in page["topics"]]
        link = page["next"]
    assert listed == sorted(set(listed))
    assert names <= set(listed)


def test_settings_are_planned_changed_and_given_back(script: Script, broker: Broker, fresh: str) -> None:
    broker.create_topic(fresh)
    address = f"/topics/{fresh}/configs"

    def retention() -> tuple[str, bool]:
        (config,) = [one for one in script.get(address)["configs"] if one["name"] == "retention.ms"]
        return config["value"], config["own"]

    plan = script.patch(address, {"set": {"retention.ms": "1000"}, "dry_run": True})
    assert "deleted soon" in plan["changes"][0]["remark"]
    assert (plan["done"], retention()) == (False, ("604800000", False))
    assert script.patch(address, {"set": {"retention.ms": "1000"}})["done"]
    assert retention() == ("1000", True)
    script.patch(address, {"reset": ["retention.ms"]})
    assert retention() == ("604800000", False)
    assert script.patch(address, {"set": {"no.such": "1"}}, 400)["field"] == "set, reset"
    assert script.patch(address, {"set": {"a": "1"}, "reset": ["a"]}, 400)["field"] == "reset"
    assert script.patch(address, {"set": {"retention.ms": "x"}}, 400)["kafka_error"] == "INVALID_CONFIG"


def test_offsets_of_a_topic_are_those_of_this_moment(script: Script, fresh: str) -> None:
    script.post("/topics", {"name": fresh, "partitions": 2}, 201)
    send(script, fresh, {"value": "a", "partition": 1}, {"value": "b", "partition": 1})
    assert [(one["start"], one["end"]) for one in script.get(f"/topics/{fresh}")["partitions"]] == [
        (0, 0),
        (0, 2),
    ]


def test_brokers_and_their_settings(script: Script) -> None:
    (node,) = script.get("/brokers")["brokers"]
    address = f"/brokers/{node['id']}/configs"
    assert "log.retention.ms" in [config["name"] for config in script.get(address)["configs"]]
    plan = script.patch(address, {"set": {"log.retention.ms": "1000"}, "dry_run": True})
    assert [change["after"] for change in plan["changes"]] == ["1000"]
    for number in ("999", "x", "9" * 5000):
        script.get(f"/brokers/{number}/configs", 404)


def test_what_is_sent_is_read_as_it_was(script: Script, broker: Broker, fresh: str) -> None:
    broker.create_topic(fresh, 3)
    records = [
        {"key": "k", "value": "text", "headers": [["h", "1"], ["h", {"base64": "/w=="}]], "timestamp": 7},
        {"key": {"base64": "/wA="}, "value": {"n": 1}, "partition": 1},
        {"value": None, "partition": 1},
    ]
    placed = send(script, fresh, *records)
    assert [place["offset"] for place in placed] == [0, 0, 1]
    assert [place["partition"] for place in placed[1:]] == [1, 1]
    read = [script.get(f"/topics/{fresh}/records/{place['partition']}/{place['offset']}") for place in placed]
    assert [record["key"] for record in read] == ["k", {"base64": "/wA="}, None]
    assert [record["value"] for record in read] == ["text", '{"n":1}', None]
    assert (read[0]["headers"], read[0]["timestamp"]) == (records[0]["headers"], 7)
    as_json = script.get(f"/topics/{fresh}/records/1/0?value_format=json&key_format=hex")
    assert (as_json["value"], as_json["key"]) == ({"n": 1}, "ff00")
    script.get(f"/topics/{fresh}/records/1/9", 404)
    script.get(f"/topics/{fresh}/records/9/0", 404)
    script.delete(f"/topics/{fresh}/records")
    assert script.get(f"/topics/{fresh}/records")["records"] == []


def test_pages_of_records_lead_to_each_other_while_records_come(
    script: Script, broker: Broker, fresh: str
) -> None:
    broker.create_topic(fresh, 2)
    send(script, fresh, *({"value": str(n), "partition": n % 2, "timestamp": n + 1} for n in range(10)))
    first = script.get(f"/topics/{fresh}/records?count=4")
    assert [record["value"] for record in first["records"]] == ["9", "8", "7", "6"]
    send(script, fresh, {"value": "10", "partition": 0, "timestamp": 20})
    second = script.get(first["older"])
    assert [record["value"] for record in second["records"]] == ["5", "4", "3", "2"]
    assert [record["value"] for record in script.get(second["newer"])["records"]] == ["9", "8", "7", "6"]
    last = script.get(second["older"])
    assert [record["value"] for record in last["records"]] == ["1", "0"]
    assert last["older"] is None
    since = script.get(f"/topics/{fresh}/records?partition=1&at=3")
    assert [record["value"] for record in since["records"]] == ["9", "7"]


def test_json_that_json_cannot_say_is_shown_as_it_was_written(
    script: Script, broker: Broker, fresh: str
) -> None:
    broker.create_topic(fresh)
    send(script, fresh, {"value": "[NaN, 1e999]"}, {"value": '"\\ud800"'}, {"value": "[" * 600 + "]" * 600})
    third, second, first = script.get(f"/topics/{fresh}/records?value_format=json")["records"]
    assert (first["value"], list(first["errors"])) == ("[NaN, 1e999]", ["value"])
    assert second["value"] == "\ud800"
    assert json.dumps(third["value"], separators=(",", ":")).startswith(("[[[", '"[[['))


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"records": []}, "records"),
        ({}, "records"),
        ([], None),
        ({"records": [{"value": 1, "offset": 3}]}, "records[0].offset"),
        ({"records": [{"partition": -1}]}, "records[0].partition"),
        ({"records": [{"partition": True}]}, "records[0].partition"),
        ({"records": [{"timestamp": 1 << 63}]}, "records[0].timestamp"),
        ({"records": [{}, {"headers": [["a"]]}]}, "records[1].headers[0]"),
        ({"records": [{}, {"key": {"base64": "?"}}]}, "records[1]"),
        ({"records": [{}], "key_format": "avro"}, "key_format, value_format"),
        ({"records": [{}], "key_format": "xml"}, "key_format"),
        ({"records": [{"value": "x"}], "value_format": "hex"}, "records[0]"),
    ],
)
def test_records_that_cannot_be_sent_name_what_is_wrong(
    script: Script, untouched: str, wrong: Any, field: str | None
) -> None:
    assert script.post(f"/topics/{untouched}/records", wrong, 400)["field"] == field
    assert script.get(f"/topics/{untouched}/records")["records"] == []


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("count=0", "count"),
        ("count=201", "count"),
        ("count=x", "count"),
        ("count=1&count=2", "count"),
        ("partition=7", "partition"),
        ("older=7", "older"),
        ("at=yesteryear", "at"),
        ("value_format=avro", "key_format, value_format"),
        ("uncommitted=1", "uncommitted"),
        ("nonsense=1", "nonsense"),
    ],
)
def test_a_query_that_cannot_be_names_what_is_wrong(
    script: Script, untouched: str, query: str, field: str
) -> None:
    assert script.get(f"/topics/{untouched}/records?{query}", 400)["field"] == field


def test_bodies_have_a_type_a_limit_and_a_form(script: Script) -> None:
    script.ask("POST", "/topics", 415, content=b'{"name": "x"}')
    typed = {"authorization": script._client["headers"]["authorization"], "content-type": "application/json"}
    for body in (b"{", b'{"name": NaN}', b"[" * 100_000, b"\xff", b'{"name": %s}' % (b"1" * 5000)):
        script.ask("POST", "/topics", 400, content=body, headers=typed)
    script.ask("POST", "/topics", 413, content=b" " * (9 << 20), headers=typed)


def test_a_group_is_shown_reset_and_deleted(script: Script, broker: Broker, fresh: str) -> None:
    broker.create_topic(fresh)
    send(script, fresh, *({"value": str(number)} for number in range(10)))
    name = f"{fresh}/readers"
    commit(broker, name, fresh, 4)
    group = script.get(f"/groups/{fresh}~2Freaders")
    assert (group["name"], group["state"], group["lag"]) == (name, "Empty", 6)

    def is_listed() -> bool:
        script.visitor.console._login.cluster.changed()  # type: ignore[attr-defined]
        return name in [listed["name"] for listed in script.get("/groups?limit=1000")["groups"]]

    wait_for(is_listed, what="the group in the list")
    address = f"/groups/{fresh}~2Freaders/reset"
    plan = script.post(address, {"to": "offset", "value": "1", "dry_run": True})
    assert (plan["moves"][0]["after"], plan["read_again"], plan["done"]) == (1, 3, False)
    assert script.get(f"/groups/{fresh}~2Freaders")["lag"] == 6
    assert script.post(address, {"to": "latest"})["skipped"] == 6
    assert script.get(f"/groups/{fresh}~2Freaders")["lag"] == 0
    assert script.post(address, {"to": "offset", "value": "x"}, 400)["field"] == "value"
    assert script.post(address, {"to": "time", "value": "x"}, 400)["field"] == "value"
    assert script.post(address, {"to": "latest", "partition": 0}, 400)["field"] == "partition"
    unknown = script.post(address, {"to": "latest", "topic": "no-such"}, 404)
    assert unknown["kafka_error"] == "UNKNOWN_TOPIC_OR_PARTITION"
    script.delete(f"/groups/{fresh}~2Freaders")
    script.get(f"/groups/{fresh}~2Freaders", 404)


def test_a_group_with_members_is_left_alone(script: Script, broker: Broker, fresh: str) -> None:
    broker.create_topic(fresh)
    consumer = Consumer(broker.client_config | {"group.id": fresh})
    consumer.subscribe([fresh])
    wait_for(lambda: bool(consumer.poll(0.1) or consumer.assignment()), what="a member")
    problem = script.post(f"/groups/{fresh}/reset", {"to": "latest", "topic": fresh}, 409)
    assert problem["kafka_error"] == "NON_EMPTY_GROUP"
    assert script.delete(f"/groups/{fresh}", 409)["kafka_error"] == "NON_EMPTY_GROUP"
    consumer.close()


def test_every_change_leaves_an_audit_line(
    script: Script, fresh: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ottla.console.audit")
    script.post("/topics", {"name": fresh}, 201)
    send(script, fresh, {"value": "x"}, {"value": "y"})
    script.post("/topics", {"name": fresh}, 409)
    lines = [record.getMessage() for record in caplog.records if record.name == "ottla.console.audit"]
    assert lines[0] == f"token from testclient creates topic {fresh}: done"
    assert lines[1] == f"token from testclient sends 2 records to topic {fresh}: done"
    assert lines[2].startswith(f"token from testclient creates topic {fresh}: refused: ")


def test_records_that_the_broker_refuses_are_told_and_audited(
    script: Script, fresh: str, caplog: pytest.LogCaptureFixture
) -> None:
    script.post("/topics", {"name": fresh, "configs": {"max.message.bytes": "100"}}, 201)
    problem = script.post(f"/topics/{fresh}/records", {"records": [{"value": "x" * 200}]}, 413)
    assert problem["kafka_error"] == "MESSAGE_TOO_LARGE"
    assert script.visitor.log_in(TOKEN).status_code == 303
    answer = script.visitor.send(f"/topics/{fresh}/records/new", value="x" * 200, key_null="1")
    assert answer.status_code == 413
    refused = [record.getMessage() for record in caplog.records if "refused" in record.getMessage()]
    assert [line.partition(": refused")[0] for line in refused] == [
        f"token from testclient sends 1 record to topic {fresh}",
        f"token from testclient sends a record to topic {fresh}",
    ]


def test_what_is_not_there_is_said_in_json(script: Script) -> None:
    headers = script._client["headers"]
    missing = script.client.get("/api/v1/nothing", headers=headers)
    assert (missing.status_code, list(missing.json())) == (404, ["message", "field", "kafka_error"])
    other = script.client.put("/api/v1/topics", headers=headers)
    assert (other.status_code, sorted(other.headers["allow"].split(", "))) == (405, ["GET", "HEAD", "POST"])


def test_the_document_has_every_route_and_each_answers_as_it_says(
    script: Script, broker: Broker, fresh: str
) -> None:
    assert script.client.get("/api/v1/openapi.json").json() == document()
    paths = document()["paths"]
    assert sum(map(len, paths.values())) == len(ENDPOINTS)
    names = [operation["operationId"] for methods in paths.values() for operation in methods.values()]
    assert len(set(names)) == len(names)
    ask_for_everything(script, broker.client_config, fresh)
