"""Fixtures: one broker for all tests of this folder, and a topic name of its own for each test."""

import itertools
import re
from collections.abc import Callable, Iterator

import pytest

# The adapters import kafka-python under a filter for the warnings it gives: they must be the first to do it.
import tests.kafka_clients.adapters  # noqa: F401
from tests.kafka_clients.harness import BrokerProcess, serving, starter

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with serving(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def start_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., BrokerProcess]]:
    with starter(tmp_path_factory.mktemp) as start:
        yield start


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses. The topic itself is not there yet."""
    return re.sub(r"[^a-zA-Z0-9-]", "-", request.node.name)[:80] + f"-{next(_numbers)}"
