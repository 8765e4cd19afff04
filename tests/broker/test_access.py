"""What a broker knows of who may do what: from its settings, and from the ACLs in the tree."""

import random

from tests.api.harness import Disk

from ottla.broker.broker import Broker
from ottla.controller.keeper import NodeChanged
from ottla.security.principals import Principal
from ottla.security.resources import Operation, ResourceType

ALICE = Principal("User", "alice")
PATH = "/kafka-acl/Topic/t"
NODE = (
    b'{"version":1,"acls":[{"principal":"User:alice","permissionType":"Allow",'
    b'"operation":"Read","host":"*"}]}'
)
UNKNOWN = NODE.replace(b'"Read"', b'"Teleport"')


def broker_with(*nodes: NodeChanged, authorizer: str = "kafka.security.authorizer.AclAuthorizer") -> Broker:
    broker = Broker(Disk(), random.Random(1), {"log.dirs": "/data", "authorizer.class.name": authorizer})
    broker.open(nodes, 0)
    return broker


def may_read(broker: Broker, topic: str = "t") -> bool:
    return broker.access.allows(ALICE, "h", Operation.READ, ResourceType.TOPIC, topic)


def test_without_an_authorizer_everything_is_allowed() -> None:
    broker = broker_with(NodeChanged(PATH, NODE, 0), authorizer="")
    assert broker.access.authorizer is None
    assert may_read(broker, "anything")
    assert broker.access.allows_any(ALICE, "h", Operation.WRITE, ResourceType.TOPIC)


def test_acls_in_the_tree_hold_from_the_start_and_changes_as_soon_as_they_are_seen() -> None:
    broker = broker_with(NodeChanged(PATH, NODE, 0))
    assert may_read(broker)
    assert not may_read(broker, "other")
    broker.on_nodes([NodeChanged(PATH, None, 0)], 1)
    assert not may_read(broker)
    broker.on_nodes([NodeChanged("/kafka-acl-extended/prefixed/Topic/o", NODE, 0)], 2)
    assert may_read(broker, "other")


def test_words_of_a_newer_kafka_allow_and_deny_nothing() -> None:
    broker = broker_with(NodeChanged(PATH, UNKNOWN, 0), NodeChanged("/kafka-acl/Galaxy/t", NODE, 0))
    assert not may_read(broker)
