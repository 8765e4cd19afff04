"""`ottla cluster elect`: back to the first replica, and the last resort."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from tests.cli.commands import Run
from tests.kafka_clients.harness import wait_for

from ottla import Cluster

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, config={"auto.leader.rebalance.enable": "false"}) as made:
        yield made


def create(cluster: Cluster, name: str, assignment: list[list[int]]) -> None:
    client = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    client.create_topics([NewTopic(name, len(assignment), replica_assignment=assignment)])[name].result(20)


def leaders(cluster: Cluster, name: str) -> list[int]:
    client = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    topic = client.list_topics(timeout=20).topics.get(name)
    return [one.leader for _, one in sorted(topic.partitions.items())] if topic is not None else []


def test_the_first_replicas_lead_again(run: Run, cluster: Cluster) -> None:
    create(cluster, "t", [[1, 2], [2, 1]])
    cluster.stop(2)
    wait_for(lambda: leaders(cluster, "t") == [1, 1], 30)
    cluster.start(2)
    bootstrap = ("-b", cluster.bootstrap_servers)
    elected = "elected leaders for 1 partition; 1 had theirs\n"
    wait_for(lambda: run("cluster", "elect", "t", *bootstrap).err == elected, 30)
    wait_for(lambda: leaders(cluster, "t") == [1, 2], 30)
    done = run("cluster", "elect", "t:1", *bootstrap)
    assert (done.code, done.err) == (0, "elected leaders for 0 partitions; 1 had theirs\n")


def test_only_an_unclean_election_gives_up_records(run: Run, cluster: Cluster) -> None:
    create(cluster, "u", [[2, 3]])
    bootstrap = ("-b", cluster.bootstrap_servers)
    cluster.stop(3)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    said: list[object] = []
    producer.produce("u", b"only broker 2 has this", on_delivery=lambda error, _message: said.append(error))
    assert producer.flush(20) == 0
    assert said == [None]
    cluster.kill(2)
    cluster.start(3)
    wait_for(lambda: leaders(cluster, "u") == [-1], 30)
    refused = run("cluster", "elect", "u", *bootstrap)
    assert refused.code == 1
    assert "u-0: " in refused.err
    unasked = run("cluster", "elect", "--unclean", "u", *bootstrap)
    assert (unasked.code, "takes --yes" in unasked.err) == (2, True)
    assert leaders(cluster, "u") == [-1]
    done = run("cluster", "elect", "--unclean", "--yes", "u", *bootstrap)
    assert (done.code, done.err) == (0, "elected leaders for 1 partition; 0 had theirs\n"), done
    wait_for(lambda: leaders(cluster, "u") == [3], 30)
    cluster.start(2)


def test_what_is_not_there_is_said(run: Run, cluster: Cluster) -> None:
    create(cluster, "v", [[1]])
    bootstrap = ("-b", cluster.bootstrap_servers)
    for arguments, code, said in (
        (["--unclean"], 2, "--unclean takes the partitions for which records may be given up"),
        (["w"], 1, "there is no topic 'w'"),
        (["v:7"], 1, "topic v has no partition 7, only 0 to 0"),
        (["v:x"], 2, "elect takes TOPIC or TOPIC:0,2, not 'v:x'"),
    ):
        found = run("cluster", "elect", *arguments, *bootstrap)
        assert (found.code, said in found.err) == (code, True), found
