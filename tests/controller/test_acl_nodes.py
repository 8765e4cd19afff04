"""ACLs as nodes of the tree, in Kafka's paths and JSON."""

import json

import pytest

from ottla.controller.acl_nodes import (
    AclKey,
    StoredAcl,
    StoredAcls,
    acl_key,
    acl_path,
    change,
    parse_acl_node,
)
from ottla.controller.image import AclsChanged, Image
from ottla.controller.keeper import Create, Delete, NodeChanged, Put
from ottla.controller.tree import Tree

ALICE = StoredAcl("User:alice", "Allow", "Read", "*")
BOB = StoredAcl("User:bob", "Deny", "DescribeConfigs", "10.0.0.1")
# What kafka-acls of Kafka 3.9 writes to ZooKeeper.
KAFKAS = (
    b'{"version":1,"acls":[{"principal":"User:alice","permissionType":"Allow","operation":"Read","host":"*"},'
    b'{"principal":"User:bob","permissionType":"Deny","operation":"DescribeConfigs","host":"10.0.0.1"}]}'
)


@pytest.mark.parametrize(
    ("key", "path"),
    [
        (AclKey("Topic", "orders"), "/kafka-acl/Topic/orders"),
        (AclKey("Topic", "*"), "/kafka-acl/Topic/*"),
        (AclKey("Cluster", "kafka-cluster"), "/kafka-acl/Cluster/kafka-cluster"),
        (AclKey("TransactionalId", "my tx", True), "/kafka-acl-extended/prefixed/TransactionalId/my tx"),
        (AclKey("Group", "a/b\n%"), "/kafka-acl/Group/a%2Fb%0A%25"),
        (AclKey("Group", ".."), "/kafka-acl/Group/%2E%2E"),
        (AclKey("Group", ".", True), "/kafka-acl-extended/prefixed/Group/%2E"),
        (AclKey("Group", "größe.x"), "/kafka-acl/Group/größe.x"),
    ],
)
def test_a_pattern_has_a_node_of_its_own_whatever_it_is_called(key: AclKey, path: str) -> None:
    assert acl_path(key) == path
    assert acl_key(path) == key


def test_folders_of_acls_are_about_nothing() -> None:
    for path in (
        "/kafka-acl/Topic",
        "/kafka-acl-extended/prefixed/Topic",
        "/kafka-acl-extended/prefixed",
        "/x",
    ):
        assert acl_key(path) is None
    assert Image().apply(NodeChanged("/kafka-acl/Topic", b"?", 0)) == []


def test_the_image_reads_kafkas_own_nodes_and_forgets_those_that_go() -> None:
    image, key = Image(), AclKey("Topic", "orders")
    assert image.apply(NodeChanged("/kafka-acl/Topic/orders", KAFKAS, 3)) == [AclsChanged(key)]
    assert image.acls == {key: StoredAcls((ALICE, BOB), 3)}
    assert image.apply(NodeChanged("/kafka-acl/Topic/orders", None, 3)) == [AclsChanged(key)]
    assert image.acls == {}


def test_acls_are_written_as_kafka_writes_them_under_the_condition_that_nobody_else_did() -> None:
    key, path = AclKey("Topic", "orders"), "/kafka-acl/Topic/orders"
    (create,) = change(key, None, [BOB, ALICE])
    assert isinstance(create, Create)
    assert json.loads(create.data) == json.loads(KAFKAS)
    stored = StoredAcls((ALICE,), 7)
    (put,) = change(key, stored, [BOB])
    assert put == Put(path, create.data, 7)
    assert change(key, stored, [ALICE]) == [], "it is there"
    assert change(key, None, [], [ALICE]) == [], "it is not there"


def test_removing_one_of_many_keeps_the_others_cve_2024_27309() -> None:
    key = AclKey("Topic", "orders")
    stored = StoredAcls((ALICE, BOB), 2)
    (put,) = change(key, stored, [], [ALICE])
    assert isinstance(put, Put)
    assert parse_acl_node(put.data) == (BOB,)
    assert put.version == 2
    assert change(key, StoredAcls((BOB,), 3), [], [BOB]) == [Delete("/kafka-acl/Topic/orders", 3)]


def test_a_change_planned_on_an_old_version_is_refused_and_planned_again() -> None:
    tree, image, key = Tree(), Image(), AclKey("Topic", "t")
    image.apply(*tree.write(change(key, None, [ALICE]))[0])
    old = image.acls[key]
    image.apply(*tree.write(change(key, old, [BOB]))[0])
    other = StoredAcl("User:c", "Allow", "All", "*")
    assert tree.write(change(key, old, [other]))[0] == [], "it would have lost Bob's"
    image.apply(*tree.write(change(key, image.acls[key], [other]))[0])
    assert set(image.acls[key].acls) == {ALICE, BOB, other}
