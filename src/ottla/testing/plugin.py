"""The pytest plugin: fixtures that give a test a real broker.

ottla_broker   one broker for the whole run, started when the first test asks for it
ottla_topic    the name of a fresh topic with one partition, deleted after the test
ottla_secure_broker  one with TLS, SASL and an authorizer, likewise; clients take its `client_config`
ottla_cluster  three brokers that replicate to each other, for the whole run; those that a test stopped or
               killed are started again after it

With pytest-xdist every worker process has its own broker.
"""

import re
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ottla.testing.cluster import Cluster
    from ottla.testing.embedded import Broker

NAME_MAX = 200


@pytest.fixture(scope="session")
def ottla_broker() -> "Iterator[Broker]":
    """A real broker for all tests of this run; clients take `ottla_broker.bootstrap_servers`."""
    from ottla.testing.embedded import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture(scope="session")
def ottla_secure_broker() -> "Iterator[Broker]":
    """A broker with TLS and SASL for all tests of this run; clients take `ottla_secure_broker.client_config`,
    or with other libraries `client_arguments`."""
    from ottla.testing.embedded import Broker

    with Broker(secure=True) as broker:
        yield broker


@pytest.fixture
def ottla_topic(ottla_broker: "Broker", request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a topic that only this test uses; it is there, with one partition, and gone afterwards."""
    from confluent_kafka import KafkaError, KafkaException

    readable = re.sub(r"[^a-zA-Z0-9._-]+", "-", request.node.name)[:NAME_MAX]
    name = ottla_broker.create_topic(f"{readable}-{uuid.uuid4().hex[:8]}")
    yield name
    try:
        ottla_broker.delete_topic(name)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise


@pytest.fixture(scope="session")
def _ottla_cluster() -> "Iterator[Cluster]":
    from ottla.testing.cluster import Cluster

    with Cluster(brokers=3) as cluster:
        yield cluster


@pytest.fixture
def ottla_cluster(_ottla_cluster: "Cluster") -> "Iterator[Cluster]":
    """A replicated cluster of three brokers; clients take `ottla_cluster.bootstrap_servers`."""
    yield _ottla_cluster
    _ottla_cluster.start()
