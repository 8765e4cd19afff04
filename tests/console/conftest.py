"""A broker, and a console beside it that tests talk to without a socket."""

from collections.abc import Iterator
from itertools import count

import pytest
from starlette.testclient import TestClient
from tests.console.visitor import TOKEN, Visitor, settings_for

from ottla import Broker

_numbers = count(1)


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def fresh() -> str:
    """A name that no other test has."""
    return f"name-{next(_numbers)}"


@pytest.fixture
def visitor(broker: Broker) -> Iterator[Visitor]:
    """Somebody who is logged in."""
    with Visitor.of(settings_for(broker)) as visitor:
        visitor.log_in(TOKEN)
        yield visitor


@pytest.fixture
def stranger(broker: Broker) -> Iterator[TestClient]:
    with Visitor.of(settings_for(broker)) as visitor:
        yield visitor.browser
