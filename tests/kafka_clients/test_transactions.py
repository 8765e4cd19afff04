"""There are no transactions yet, and a client that wants one is told so at once."""

import time

import pytest
from confluent_kafka import KafkaException, Producer
from tests.kafka_clients.harness import BrokerProcess


def test_a_transactional_producer_fails_at_once(broker: BrokerProcess) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "t", "log_level": 0})
    began = time.monotonic()
    with pytest.raises(KafkaException):
        producer.init_transactions(60)
    assert time.monotonic() - began < 50
