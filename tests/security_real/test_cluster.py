"""Brokers that talk to each other with TLS, and with SASL over it: replication and failover."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer
from tests.support.certificates import Authority
from tests.support.waiting import wait_for

from ottla import Cluster
from ottla.controller.image import Image

AUTHORITY = Authority()
CLIENTS, BROKERS = "CLIENTS", "BROKERS"
LISTENERS = {
    "listeners": "CLIENTS://127.0.0.1:0,BROKERS://127.0.0.1:0",
    "inter.broker.listener.name": BROKERS,
}
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
PLAIN = {
    "listener.name.brokers.sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.brokers.plain.sasl.jaas.config": (
        f'{MODULE} required username="broker" password="between" user_broker="between";'
    ),
}
WITHIN_S = 60.0


def protocols(between_brokers: str) -> dict[str, str]:
    return {"listener.security.protocol.map": f"CLIENTS:PLAINTEXT,BROKERS:{between_brokers}"}


def mutual(authority: Authority = AUTHORITY) -> dict[str, str]:
    """Certificates on both sides, for the listener of brokers alone."""
    own = authority.properties("broker") | {"ssl.client.auth": "required"}
    return {f"listener.name.brokers.{name}": value for name, value in own.items()}


def image_of(cluster: Cluster, broker: int) -> Image:
    server = cluster.brokers[broker]._server
    assert server is not None
    return server.broker.image


def written(cluster: Cluster, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    for value in values:
        producer.produce("t", value)
    assert producer.flush(WITHIN_S) == 0


def read(cluster: Cluster, group: str, count: int) -> set[bytes]:
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest"}
    )
    try:
        consumer.subscribe(["t"])
        values: set[bytes] = set()
        while len(values) < count:
            message = consumer.poll(WITHIN_S)
            assert message is not None
            assert message.error() is None, message.error()
            values.add(message.value())
        return values
    finally:
        consumer.close()


def in_sync(cluster: Cluster, broker: int) -> int:
    topic = image_of(cluster, broker).topics.get("t")
    return min((len(state.isr) for state in topic.states.values()), default=0) if topic else 0


@pytest.fixture(params=["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    config = LISTENERS | protocols(request.param)
    config |= mutual() if "SSL" in request.param else {}
    config |= PLAIN if "SASL" in request.param else {}
    with Cluster(brokers=3, config=config) as made:
        yield made


@pytest.mark.timeout(240)
def test_brokers_replicate_and_fail_over_with_certificates_and_a_login_between_them(
    cluster: Cluster,
) -> None:
    cluster.create_topic("t", partitions=3)
    written(cluster, [b"%d" % number for number in range(30)])
    wait_for(lambda: in_sync(cluster, 1) == 3, WITHIN_S)
    assert read(cluster, "before", 30) == {b"%d" % number for number in range(30)}
    cluster.kill(1)
    written(cluster, [b"%d" % number for number in range(30, 60)])
    assert read(cluster, "after", 60) == {b"%d" % number for number in range(60)}
    cluster.start(1)
    wait_for(lambda: in_sync(cluster, 1) == 3, WITHIN_S)
    connections = [
        (session.listener, session.principal.name)
        for broker in cluster.brokers.values()
        if (server := broker._server) is not None
        for number in server.broker.identities.connections
        for session in [server.broker.access.session(number)]
    ]
    protocol = cluster.config["listener.security.protocol.map"].rpartition(":")[2]
    assert set(connections) == {(BROKERS, "CN=broker" if protocol == "SSL" else "broker")}


@pytest.mark.timeout(240)
def test_a_broker_whose_authority_is_another_is_in_no_isr(caplog: pytest.LogCaptureFixture) -> None:
    config = LISTENERS | protocols("SSL")
    with Cluster(brokers=3, config=config | mutual()) as cluster:
        cluster.create_topic("t", partitions=1)
        wait_for(lambda: in_sync(cluster, 1) == 3, WITHIN_S)
        cluster.stop(3)
        cluster.config |= mutual(Authority("another"))
        cluster.start(3)
        written(cluster, [b"x"])
        wait_for(lambda: "failed to begin TLS" in caplog.text, WITHIN_S)
        wait_for(lambda: "certificate verify failed" in caplog.text, WITHIN_S)
        assert 3 not in image_of(cluster, 1).topics["t"].states[0].isr


@pytest.mark.timeout(240)
def test_a_certificate_for_another_host_is_refused_unless_hosts_are_not_compared(
    caplog: pytest.LogCaptureFixture,
) -> None:
    elsewhere = {
        f"listener.name.brokers.{name}": value
        for name, value in AUTHORITY.properties("broker", hosts=("elsewhere.example",)).items()
    }
    config = LISTENERS | protocols("SSL") | elsewhere
    with Cluster(brokers=2, config=config):
        wait_for(lambda: "IP address mismatch" in caplog.text, WITHIN_S)
    config["ssl.endpoint.identification.algorithm"] = ""
    with Cluster(brokers=2, config=config) as cluster:
        cluster.create_topic("t")
        written(cluster, [b"x"])
        wait_for(lambda: in_sync(cluster, 1) == 2, WITHIN_S)
