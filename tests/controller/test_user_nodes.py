"""The nodes of users, clients and addresses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.controller import user_nodes, znodes
from ottla.controller.image import Configs, EntityConfigChanged, Image
from ottla.controller.keeper import Create, NodeChanged, Put
from ottla.controller.user_nodes import DEFAULT, Entity, entity_of, node_name


@pytest.mark.parametrize(
    ("entity", "path"),
    [
        (Entity("alice"), "/config/users/alice"),
        (Entity(DEFAULT), "/config/users/<default>"),
        (Entity("alice", "app 1"), "/config/users/alice/clients/app%201"),
        (Entity("alice", DEFAULT), "/config/users/alice/clients/<default>"),
        (Entity(DEFAULT, DEFAULT), "/config/users/<default>/clients/<default>"),
        (Entity(client_id="app"), "/config/clients/app"),
        (Entity(client_id=DEFAULT), "/config/clients/<default>"),
        (Entity(ip="10.0.0.1"), "/config/ips/10.0.0.1"),
        (Entity(ip=DEFAULT), "/config/ips/<default>"),
    ],
)
def test_each_has_kafkas_path(entity: Entity, path: str) -> None:
    assert entity.path == path
    assert entity_of(path) == entity


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("CN=a, O=b", "CN%3Da%2C%20O%3Db"),
        ("a*b+c~d", "a%2Ab%2Bc%7Ed"),
        ("a.b-c_d", "a.b-c_d"),
        ("<default>", "%3Cdefault%3E"),
        ("k\u00e4fer", "k%C3%A4fer"),
        ("..", "%2E%2E"),
    ],
)
def test_names_are_escaped_as_kafkas_sanitizer_does_it(name: str, escaped: str) -> None:
    assert node_name(name) == escaped


@given(st.text(min_size=1), st.text(min_size=1))
def test_any_name_can_be_told_from_its_path(user: str, client_id: str) -> None:
    assert entity_of(Entity(user, client_id).path) == Entity(user, client_id)
    assert entity_of(Entity(user).path) == Entity(user)


def test_folders_among_the_nodes_are_nobodys() -> None:
    assert entity_of("/config/users/alice/clients") is None
    assert Image().apply(NodeChanged("/config/users/alice/clients", b"{}", 0)) == []


def test_the_image_has_what_is_set_until_the_node_is_gone() -> None:
    image, alice = Image(), Entity("alice")
    node = NodeChanged(alice.path, znodes.config_node({"a": "1"}), 3)
    assert image.apply(node) == [EntityConfigChanged(alice)]
    assert image.entity_configs == {alice: Configs({"a": "1"}, 3)}
    image.apply(NodeChanged(alice.path, None, 3))
    assert image.entity_configs == {}


def test_an_empty_node_sets_nothing_and_has_a_version() -> None:
    image = Image()
    image.apply(NodeChanged("/config/users/alice", b"", 0))
    assert image.entity_configs == {Entity("alice"): Configs({}, 0)}


def test_a_node_is_made_or_changed_by_the_version_it_was_read_at() -> None:
    alice, content = Entity("alice"), b'{"version":1,"config":{"a":"1"}}'
    assert user_nodes.write(alice, {"a": "1"}, -1) == [Create("/config/users/alice", content)]
    assert user_nodes.write(alice, {"a": "1"}, 7) == [Put("/config/users/alice", content, 7)]
