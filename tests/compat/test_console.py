"""The console with Apache Kafka behind it: every page opens, and changes are made and undone."""

from collections.abc import Iterator

import pytest
from bench import apache
from bench.servers import PeerError
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from tests.console.api.everyday import ask_for_everything
from tests.console.api.script import Script
from tests.console.visitor import TOKEN, Visitor
from tests.support.waiting import wait_for

from ottla.client.properties import ClientProperties
from ottla.console.routes import ROUTES
from ottla.console.settings import ConsoleSettings


@pytest.fixture(scope="module")
def kafka(kafka_jars: str) -> Iterator[str]:
    try:
        with apache.ApacheKafka({"group.initial.rebalance.delay.ms": "0"}) as node:
            yield node.bootstrap
    except PeerError as error:
        pytest.skip(f"needs Apache Kafka: {error}")


@pytest.fixture
def visitor(kafka: str) -> Iterator[Visitor]:
    with Visitor.of(ConsoleSettings(ClientProperties(kafka), port=8080, token=TOKEN)) as visitor:
        visitor.log_in(TOKEN)
        yield visitor


def has_committed(kafka: str) -> bool:
    """A coordinator that has just been made may not be ready."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "billing"})
    starts = [TopicPartition("orders", number, 0) for number in range(3)]
    try:
        consumer.commit(offsets=starts, asynchronous=False)
    except KafkaException:
        return False
    finally:
        consumer.close()
    return True


def test_topics_groups_and_settings_of_apache_kafka_are_shown_and_changed(
    visitor: Visitor, kafka: str
) -> None:
    page = visitor.send_and_follow("/new-topic", name="orders", partitions="3", replicas="1", confirmed="1")
    assert "Topic orders is created." in page
    producer = Producer({"bootstrap.servers": kafka})
    for number in range(100):
        producer.produce("orders", str(number))
    assert producer.flush(30) == 0
    wait_for(lambda: has_committed(kafka), what="a coordinator")
    assert "Lag 100" in visitor.open("/groups/billing")
    assert "Lag 0" in visitor.send_and_follow("/groups/billing/reset", goal="latest", confirmed="1")
    settings = visitor.open("/topics/orders/settings")
    assert "maximum time we will retain a log" in settings
    change = {"set:retention.ms": "1000000"}
    assert "1000000" in visitor.send("/topics/orders/settings", **change).text
    visitor.send_and_follow("/topics/orders/settings", **change, confirmed="1")
    visitor.send_and_follow("/topics/orders/settings", drop="retention.ms", confirmed="1")

    def is_measured() -> bool:
        visitor.session.cluster.changed()
        return "Records 100" in visitor.open("/topics/orders") and "billing" in visitor.open("/groups")

    wait_for(is_measured, what="the measurement")
    quota = {"kind": "user", "name": "alice", "key": "producer_byte_rate"}
    assert "alice" in visitor.send_and_follow("/quotas", **quota, value="1000000")
    visitor.send_and_follow("/quotas", **quota, remove="1")
    assert "alice" in visitor.send_and_follow("/users", user="alice", password="a long password")
    visitor.send_and_follow("/users/remove", user="alice", confirmed="1")
    visitor.send_and_follow("/groups/billing/delete")
    visitor.send_and_follow("/topics/orders/delete", name="orders")


def test_scripts_do_everything_with_apache_kafka(visitor: Visitor, kafka: str) -> None:
    script = Script(visitor, headers={"authorization": f"Bearer {TOKEN}"})
    ask_for_everything(script, {"bootstrap.servers": kafka}, "by-script")
    assert script.post("/topics", {"name": "x", "configs": {"retention.ms": "x"}}, 400)["kafka_error"]
    script.post("/groups/no-such/reset", {"to": "latest", "topic": "x"}, 404)


def test_every_page_opens_with_apache_kafka(visitor: Visitor) -> None:
    for route in ROUTES:
        if not route.is_change and "{" not in route.path:
            visitor.open(route.path)
    wait_for(lambda: "fine" in visitor.open("/brokers/1"), what="the log directory")
    visitor.open("/brokers/1/settings")
