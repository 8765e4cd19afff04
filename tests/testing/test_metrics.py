"""`Broker().metrics()` gives tests what Prometheus would see."""

import pytest

from ottla import Broker


def test_the_metrics_of_a_broker_are_a_dictionary_by_their_names() -> None:
    with Broker() as broker:
        before = broker.metrics()
        broker.create_topic("orders", partitions=3)
        after = broker.metrics()
    assert before["kafka_server_replicamanager_partitioncount"] == 0
    assert after["kafka_server_replicamanager_partitioncount"] == 3
    assert after["kafka_server_replicamanager_leadercount"] == 3
    with pytest.raises(RuntimeError, match="not running"):
        broker.metrics()
