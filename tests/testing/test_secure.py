"""`Broker(secure=True)`: TLS, SASL and an authorizer, with clients of three libraries."""

import asyncio
import warnings
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.support.pem_files import certificates
from tests.support.waiting import wait_for

from ottla import Broker, Cluster
from ottla.log.folders import KEEPER_DB
from ottla.shell.lock import StartError

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
    from kafka import KafkaProducer

DEADLINE_S = 30.0


def topics(config: dict[str, object]) -> set[str]:
    return set(AdminClient(config).list_topics(timeout=DEADLINE_S).topics)


def test_confluent_kafka_connects_with_the_client_config(ottla_secure_broker: Broker) -> None:
    topic = ottla_secure_broker.create_topic("from-confluent")
    producer = Producer(ottla_secure_broker.client_config)
    producer.produce(topic, b"hello")
    assert producer.flush(DEADLINE_S) == 0
    consumer = Consumer({**ottla_secure_broker.client_config, "group.id": "any"})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        assert [message.value() for message in consumer.consume(1, DEADLINE_S)] == [b"hello"]
    finally:
        consumer.close()
    ottla_secure_broker.delete_topic(topic)
    assert topic not in topics(ottla_secure_broker.client_config)


def test_aiokafka_connects_with_the_client_arguments(ottla_secure_broker: Broker) -> None:
    topic = ottla_secure_broker.create_topic("from-aiokafka")

    async def exchange() -> bytes | None:
        arguments = ottla_secure_broker.client_arguments
        async with AIOKafkaProducer(**arguments) as producer:
            await producer.send_and_wait(topic, b"hello")
        async with AIOKafkaConsumer(topic, auto_offset_reset="earliest", **arguments) as consumer:
            return (await asyncio.wait_for(consumer.getone(), DEADLINE_S)).value

    assert asyncio.run(exchange()) == b"hello"


def test_kafka_python_connects_with_the_client_arguments(ottla_secure_broker: Broker) -> None:
    topic = ottla_secure_broker.create_topic("from-kafka-python")
    producer = KafkaProducer(**ottla_secure_broker.client_arguments)
    try:
        assert producer.send(topic, b"hello").get(DEADLINE_S).offset == 0
    finally:
        producer.close()


def test_who_has_no_password_or_trusts_somebody_else_is_kept_out(
    ottla_secure_broker: Broker, tmp_path: Path
) -> None:
    for wrong, code in (
        ({"sasl.password": "guess"}, KafkaError._AUTHENTICATION),
        ({"ssl.ca.location": certificates(tmp_path / "other").ca}, KafkaError._SSL),
        ({"security.protocol": "PLAINTEXT"}, KafkaError._ALL_BROKERS_DOWN),
    ):
        errors: list[int] = []
        config = {**ottla_secure_broker.client_config, **wrong}
        producer = Producer({**config, "error_cb": lambda error, errors=errors: errors.append(error.code())})
        delivered: list[object] = []
        producer.produce("any", b"hello", on_delivery=lambda *it, delivered=delivered: delivered.append(it))
        wait_for(lambda producer=producer, errors=errors, code=code: producer.poll(0.1) or code in errors)
        assert not delivered
        producer.purge()


def test_a_broker_that_keeps_its_data_can_be_secure_again(tmp_path: Path) -> None:
    for _ in range(2):
        with Broker(data=tmp_path, secure=True) as broker:
            if "kept" not in topics(broker.client_config):
                broker.create_topic("kept")
    with Broker(data=tmp_path, secure=True) as broker:
        assert "kept" in topics(broker.client_config)
    assert (tmp_path / KEEPER_DB).stat().st_mode & 0o077 == 0


def test_a_folder_that_a_broker_uses_keeps_its_users(tmp_path: Path) -> None:
    with Broker(data=tmp_path, secure=True) as broker:
        with pytest.raises(StartError, match="in use by another broker"):
            Broker(data=tmp_path, secure=True).start()
        assert AdminClient(broker.client_config).list_topics(timeout=30).brokers


def test_a_broker_without_security_has_client_settings_as_well() -> None:
    with Broker() as broker:
        assert broker.client_config == {"bootstrap.servers": broker.bootstrap_servers}
        assert broker.client_arguments == {"bootstrap_servers": broker.bootstrap_servers}
        with pytest.raises(RuntimeError, match="secure=True"):
            _ = broker.ssl_context


def test_no_password_is_shown_by_the_broker_object() -> None:
    broker = Broker(secure=True)
    assert broker._security is not None
    assert broker._security.password not in repr(broker) + repr(broker._security)


def test_a_secure_cluster_replicates_and_fails_over() -> None:
    with Cluster(brokers=3, secure=True) as cluster:
        topic = cluster.create_topic("letters", partitions=3)
        producer = Producer({**cluster.client_config, "acks": "all"})
        for number in range(30):
            producer.produce(topic, str(number).encode())
        assert producer.flush(DEADLINE_S) == 0
        cluster.kill(2)
        producer.produce(topic, b"after")
        assert producer.flush(DEADLINE_S) == 0
