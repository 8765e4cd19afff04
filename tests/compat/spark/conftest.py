"""The session, the broker and the topics of tests/spark, and the official connector in that session."""

from importlib.metadata import version

import pytest
from bench.servers import PeerError
from bench.spark_connector import Connector, fetch
from tests.spark.conftest import broker, pytest_collection_modifyitems, spark, topic

__all__ = ["broker", "connector", "pytest_collection_modifyitems", "spark", "topic"]


@pytest.fixture(scope="session", autouse=True)
def connector() -> Connector:
    try:
        return fetch(version("pyspark"))
    except PeerError as error:
        pytest.skip(f"needs the official connector: {error}")
