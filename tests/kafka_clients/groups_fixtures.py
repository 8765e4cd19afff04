"""One broker for all tests of groups, with short delays; and members that are closed after each test."""

import gc
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from tests.kafka_clients.groups_harness import SETTINGS, Join
from tests.kafka_clients.groups_members import CLIENTS, Member, Wish
from tests.kafka_clients.harness import BrokerProcess, serving

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def groups_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with serving(tmp_path_factory.mktemp("groups"), SETTINGS) as running:
        yield running


@pytest.fixture
def group() -> str:
    return f"group-{next(_numbers)}"


@pytest.fixture
def join(groups_broker: BrokerProcess, start_broker: object, group: str) -> Iterator[Join]:
    """A member of the test's group: `join("classic", topic)`. `at` is another broker, `group` another group.

    It asks for `start_broker` so that members are closed before their broker goes.
    """
    members: list[Member] = []

    def begin(client: str, *topics: str, at: BrokerProcess = groups_broker, **wish: Any) -> Member:
        wish.setdefault("group", group)
        member = CLIENTS[client](Wish(bootstrap=at.bootstrap, topics=topics, **wish))
        members.append(member)
        return member

    yield begin
    for member in members:
        member.begin_to_close()
    for member in members:
        member.close()
    members.clear()
    gc.collect()  # so that what a library left open is this test's, and not the next one's
