"""Everything that a script can ask for, once, and in an order that makes sense; whatever the cluster is."""

from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition
from tests.console.api.script import Script, seen
from tests.support.waiting import wait_for

from ottla.console.api.routes import ENDPOINTS


def ask_for_everything(script: Script, client_config: dict[str, Any], name: str, replicas: int = 1) -> None:
    """`name` is that of a topic and of a group, which are both gone afterwards."""
    seen.clear()
    script.get("/topics")
    wanted = {"name": name, "partitions": 2, "replicas": replicas}
    assert script.post("/topics", wanted, 201) == {"name": name, "created": True}
    assert script.post("/topics", wanted, 409)["kafka_error"] == "TOPIC_ALREADY_EXISTS"
    records = [{"key": "k", "value": {"id": 7}, "partition": 1}, {"value": None, "partition": 1}]
    sent = script.post(f"/topics/{name}/records", {"records": records}, 201)["records"]
    assert sent == [{"partition": 1, "offset": 0}, {"partition": 1, "offset": 1}]
    wait_for(lambda: _has_committed(client_config, name), what="a coordinator")
    page = script.get(f"/topics/{name}/records?value_format=json")["records"]
    assert [(record["offset"], record["value"]) for record in page] == [(1, None), (0, {"id": 7})]
    assert script.get(f"/topics/{name}/records/1/0")["key"] == "k"
    assert [partition["end"] for partition in script.get(f"/topics/{name}")["partitions"]] == [0, 2]
    change = {"set": {"retention.ms": "86400000"}}
    assert script.patch(f"/topics/{name}/configs", change)["changes"][0]["after"] == "86400000"
    configs = script.get(f"/topics/{name}/configs")["configs"]
    assert [config["name"] for config in configs if config["own"]] == ["retention.ms"]
    node = script.get("/brokers")["brokers"][0]
    script.get(f"/brokers/{node['id']}/configs")
    script.patch(f"/brokers/{node['id']}/configs", {})
    wait_for(lambda: name in _groups(script), what="the group in the list")
    assert script.get(f"/groups/{name}")["lag"] == 2
    assert script.post(f"/groups/{name}/reset", {"to": "latest"})["skipped"] == 2
    assert script.get(f"/groups/{name}")["lag"] == 0
    assert len(script.patch(f"/topics/{name}", {"partitions": 3})["partitions"]) == 3
    for address in (f"/groups/{name}", f"/topics/{name}/records", f"/topics/{name}"):
        script.delete(address)
    script.get(f"/topics/{name}", 404)
    assert seen == {(endpoint.method, endpoint.path) for endpoint in ENDPOINTS}


def _groups(script: Script) -> list[str]:
    return [group["name"] for group in script.get("/groups?limit=1000")["groups"]]


def _has_committed(client_config: dict[str, Any], name: str) -> bool:
    """A coordinator that has just been made may not be ready."""
    consumer = Consumer(client_config | {"group.id": name})
    try:
        consumer.commit(offsets=[TopicPartition(name, 1, 0)], asynchronous=False)
    except KafkaException:
        return False
    finally:
        consumer.close()
    return True
