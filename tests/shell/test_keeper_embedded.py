"""The keeper of a single broker: a tree of versioned nodes in an SQLite file."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.api.harness import lone_tree

from ottla.controller.keeper import Check, Create, Delete, NodeChanged, Operation, Put, Refused, Written
from ottla.shell.keeper_embedded import EmbeddedKeeper

NOWHERE = ""  # to SQLite a database without a name, which is gone when it is closed


@pytest.fixture
def keeper() -> Iterator[EmbeddedKeeper]:
    made = EmbeddedKeeper(NOWHERE)
    yield made
    made.close()


def test_a_node_is_created_changed_and_deleted(keeper: EmbeddedKeeper) -> None:
    assert keeper.write([Create("/a", b"1")]) == ([NodeChanged("/a", b"1", 0)], Written())
    assert keeper.write([Put("/a", b"2", 0)]) == ([NodeChanged("/a", b"2", 1)], Written())
    assert keeper.write([Put("/a", b"3")]) == ([NodeChanged("/a", b"3", 2)], Written())
    assert keeper.load() == [NodeChanged("/a", b"3", 2)]
    assert keeper.write([Check("/a", 2), Delete("/a", 2)]) == ([NodeChanged("/a", None, 2)], Written())
    assert keeper.load() == []


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        (Create("/a", b""), "/a is there already"),
        (Put("/b", b""), "/b is not there"),
        (Put("/a", b"", 3), "/a is at version 1, not 3"),
        (Delete("/b"), "/b is not there"),
        (Delete("/a", 0), "/a is at version 1, not 0"),
        (Check("/b", -1), "/b is not there"),
        (Check("/a", 7), "/a is at version 1, not 7"),
    ],
)
def test_a_condition_that_does_not_hold_refuses_the_whole_write(
    keeper: EmbeddedKeeper, operation: Operation, reason: str
) -> None:
    keeper.write([Create("/a", b"kept")])
    changed, outcome = keeper.write([Create("/new", b""), Put("/a", b"changed", -1), operation])
    assert (changed, outcome) == ([], Refused(operation.path, reason))
    assert keeper.load() == [NodeChanged("/a", b"kept", 0)]


def test_a_write_that_was_refused_does_not_stand_in_the_way_of_the_next(keeper: EmbeddedKeeper) -> None:
    keeper.write([Put("/nowhere", b"")])
    assert keeper.write([Create("/a", b"")])[1] == Written()


def test_a_node_goes_with_everything_below_it_and_nothing_beside_it(keeper: EmbeddedKeeper) -> None:
    names = ["/t/a", "/t/a/state", "/t/a/x/y", "/t/a-1", "/t/a.b", "/t/a0", "/t/aa/state", "/t"]
    keeper.write([Create(name, b"") for name in names])
    changed, _ = keeper.write([Delete("/t/a")])
    assert [node.path for node in changed] == ["/t/a/x/y", "/t/a/state", "/t/a"], "children first"
    assert [node.path for node in keeper.load()] == sorted(set(names) - {"/t/a", "/t/a/state", "/t/a/x/y"})


def test_a_file_keeps_its_nodes_and_loses_what_was_ephemeral(tmp_path: Path) -> None:
    path = str(tmp_path / "keeper.db")
    first = EmbeddedKeeper(path)
    first.write([Create("/kept", b"k"), Create("/brokers/ids/1", b"me", ephemeral=True)])
    first.write([Put("/kept", b"k2")])
    first.close()
    again = EmbeddedKeeper(path, durable=False)
    assert again.load() == [NodeChanged("/kept", b"k2", 1)]
    assert again.write([Create("/brokers/ids/1", b"me again", ephemeral=True)])[1] == Written()
    again.close()


def test_a_process_that_dies_between_two_writes_leaves_the_first(tmp_path: Path) -> None:
    path = str(tmp_path / "keeper.db")
    abandoned = EmbeddedKeeper(path)
    abandoned.write([Create("/a", b"1")])
    survivor = EmbeddedKeeper(path)
    assert survivor.load() == [NodeChanged("/a", b"1", 0)]
    survivor.close()
    abandoned.close()


PATHS = st.sampled_from(["/a", "/a/b", "/a/b/c", "/a-b", "/a0", "/c"])
VERSIONS = st.integers(-1, 2)
OPERATIONS = st.one_of(
    st.builds(Create, PATHS, st.binary(max_size=1), st.booleans()),
    st.builds(Put, PATHS, st.binary(max_size=1), VERSIONS),
    st.builds(Delete, PATHS, VERSIONS),
    st.builds(Check, PATHS, VERSIONS),
)


@settings(max_examples=60)
@given(st.lists(st.lists(OPERATIONS, max_size=4), max_size=8))
def test_the_keeper_of_the_pure_tests_does_the_same(writes: list[list[Operation]]) -> None:
    real, model = EmbeddedKeeper(NOWHERE), lone_tree()
    for operations in writes:
        assert real.write(operations) == model.write(operations)
        assert real.load() == model.load()
    real.close()
