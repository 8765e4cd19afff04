"""A script with the token of a console beside a broker."""

from collections.abc import Iterator

import pytest
from tests.console.api.script import Script
from tests.console.visitor import TOKEN, Visitor, settings_for

from ottla import Broker


@pytest.fixture
def script(broker: Broker) -> Iterator[Script]:
    with Script(Visitor.of(settings_for(broker)), headers={"authorization": f"Bearer {TOKEN}"}) as made:
        yield made
