"""A cluster of three brokers in the console, one of which goes and comes back."""

from collections.abc import Iterator

import pytest
from tests.console.api.everyday import ask_for_everything
from tests.console.api.script import Script
from tests.console.visitor import TOKEN, Visitor
from tests.support.waiting import wait_for

from ottla import Cluster
from ottla.cli.cluster.moves import ClusterMoving
from ottla.client.admin.requests import Cluster as Requests
from ottla.client.properties import ClientProperties
from ottla.console.settings import ConsoleSettings
from ottla.controller.balance import Move


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, config={"min.insync.replicas": 2, "ottla.http.listener": "127.0.0.1:0"}) as running:
        running.create_topic("orders", 6, 3)
        running.create_topic("fragile", 3, 1)
        yield running


@pytest.fixture
def visitor(cluster: Cluster) -> Iterator[Visitor]:
    settings = ConsoleSettings(ClientProperties(cluster.bootstrap_servers), port=8080, token=TOKEN)
    with Visitor.of(settings) as visitor:
        visitor.log_in(TOKEN)
        yield visitor


def troubled(script: Script) -> dict[str, int]:
    return {topic["name"]: topic["troubled"] for topic in script.get("/topics")["topics"]}


def test_scripts_do_everything_with_three_brokers(cluster: Cluster, visitor: Visitor) -> None:
    script = Script(visitor, headers={"authorization": f"Bearer {TOKEN}"})
    ask_for_everything(script, cluster.client_config, "by-script", replicas=3)
    nodes = script.get("/brokers")["brokers"]
    assert ([node["id"] for node in nodes], sum(node["controller"] for node in nodes)) == ([1, 2, 3], 1)
    offsets = script.get("/topics/orders")["partitions"]
    assert [(one["start"], one["end"], len(one["isr"])) for one in offsets] == [(0, 0, 3)] * 6
    for node in nodes:
        script.get(f"/brokers/{node['id']}/configs")


def test_a_broker_that_dies_is_what_is_wrong_now_until_it_is_back(cluster: Cluster, visitor: Visitor) -> None:
    wait_for(lambda: "Nothing. All brokers are there" in visitor.open("/"), what="a cluster that is fine")
    for broker in (1, 2, 3):
        visitor.open(f"/brokers/{broker}")
    cluster.kill(3)
    script = Script(visitor, headers={"authorization": f"Bearer {TOKEN}"})
    wait_for(lambda: script.get("/brokers")["missing"] == [3], what="the same for scripts")
    wait_for(lambda: troubled(script) == {"orders": 6, "fragile": 1}, what="partitions in trouble")

    def is_seen() -> bool:
        page = visitor.open("/")
        return (
            "1 broker of the cluster is not there: 3." in page
            and "1 partition cannot be read or written: fragile" in page
            and "replicas that are not in sync" in page
        )

    wait_for(is_seen, what="the broker that is gone")
    page = visitor.open("/topics?trouble=1")
    assert "1 offline" in page
    assert "6 not in sync" in page
    assert "not there" in visitor.open("/brokers")
    cluster.start(3)
    wait_for(lambda: "No topic is in trouble" in visitor.open("/topics?trouble=1"), what="all in sync again")


def test_bytes_are_known_where_brokers_serve_metrics(cluster: Cluster, visitor: Visitor) -> None:
    def has_bytes() -> bool:
        visitor.session.cluster.changed()
        return "In 0 B/s" in visitor.open("/")

    wait_for(has_bytes, what="two measurements")
    assert "Connections" in visitor.open("/brokers/1")


def test_a_partition_that_moves_is_among_the_reassignments_until_it_has_arrived(
    cluster: Cluster, visitor: Visitor
) -> None:
    wait_for(lambda: "No partition moves" in visitor.open("/brokers"), what="a cluster at rest")
    partitions = visitor.session.cluster.snapshot(having="fragile").topics["fragile"].partitions
    number = next(partition.number for partition in partitions if partition.leader != 3)
    before = partitions[number].replicas
    cluster.kill(3)
    moving = ClusterMoving(Requests(ClientProperties(cluster.bootstrap_servers)))
    assert moving.begin([Move("fragile", number, before, (3,))]) == {}

    def is_shown() -> bool:
        return f"fragile {number} {before[0]} 3" in visitor.open("/brokers")

    wait_for(is_shown, what="the move")
    cluster.start(3)
    wait_for(lambda: "No partition moves" in visitor.open("/brokers"), what="its end")
