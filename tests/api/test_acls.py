"""ACLs over the wire (APIs 29, 30, 31): heeded, shown, deleted, and stored as Kafka stores them."""

import json
from typing import Any

import pytest
from tests.api.harness import Machine
from tests.api.rights import REQUESTS, Guarded

from ottla.api.call import CloseConnection
from ottla.base.errors import ErrorCode
from ottla.broker.effects import WriteNodes
from ottla.controller.keeper import Put
from ottla.security.resources import Operation, PatternType, Permission, ResourceType
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.wire.messages.describe_acls import DescribeAclsRequest

TOPIC, GROUP, CLUSTER, USER = (
    ResourceType.TOPIC,
    ResourceType.GROUP,
    ResourceType.CLUSTER,
    ResourceType.USER,
)
LITERAL, PREFIXED, MATCH = PatternType.LITERAL, PatternType.PREFIXED, PatternType.MATCH
READ, ALLOW = Operation.READ, Permission.ALLOW
VERSIONS = [1, 2, 3]


def creation(
    name: str = "t", principal: str = "User:alice", resource_type: int = TOPIC, pattern_type: int = LITERAL,
    operation: int = READ, permission: int = ALLOW, host: str = "*",
) -> AclCreation:  # fmt: skip
    return AclCreation(
        resource_type=resource_type, resource_name=name, resource_pattern_type=pattern_type,
        principal=principal, host=host, operation=operation, permission_type=permission,
    )  # fmt: skip


def selection(**fields: Any) -> dict[str, Any]:
    anything = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
    return {**anything, **fields}


def described(guarded: Guarded, version: int = 3, **fields: Any) -> list[tuple[str, int, list[str]]]:
    answer = guarded.admin.send(DescribeAclsRequest(**selection(**fields)), version)
    assert answer.error_code == ErrorCode.NONE
    return [
        (resource.resource_name, resource.pattern_type, [acl.principal for acl in resource.acls])
        for resource in answer.resources
    ]


def create(guarded: Guarded, *creations: AclCreation, version: int = 3) -> list[int]:
    answer = guarded.admin.send(CreateAclsRequest(creations=list(creations)), version)
    return [result.error_code for result in answer.results]


def delete(guarded: Guarded, version: int = 3, **fields: Any) -> list[tuple[str, str]]:
    request = DeleteAclsRequest(filters=[DeleteAclsFilter(**selection(**fields))])
    (result,) = guarded.admin.send(request, version).filter_results
    assert result.error_code == ErrorCode.NONE
    return [(acl.resource_name, acl.principal) for acl in result.matching_acls]


@pytest.fixture
def guarded() -> Guarded:
    return Guarded()


@pytest.mark.parametrize("version", VERSIONS)
def test_without_an_authorizer_security_is_disabled(version: int) -> None:
    client = Machine().client()
    create = client.send(REQUESTS["create_acls"](version, b""), version)
    assert [result.error_code for result in create.results] == [ErrorCode.SECURITY_DISABLED]
    delete = client.send(REQUESTS["delete_acls"](version, b""), version)
    assert [result.error_code for result in delete.filter_results] == [ErrorCode.SECURITY_DISABLED]
    assert (
        client.send(REQUESTS["describe_acls"](version, b""), version).error_code
        == ErrorCode.SECURITY_DISABLED
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_an_acl_holds_as_soon_as_it_is_answered_and_no_longer_when_it_is_deleted(version: int) -> None:
    guarded = Guarded()
    alice = guarded.user("alice")

    def read() -> int:
        code: int = alice.send(REQUESTS["fetch"](12, b""), 12).responses[0].partitions[0].error_code
        return code

    assert read() == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert create(guarded, creation(), version=version) == [ErrorCode.NONE]
    assert read() == ErrorCode.NONE
    assert described(guarded, version) == [("t", LITERAL, ["User:alice"])]
    assert delete(guarded, version, resource_name_filter="t") == [("t", "User:alice")]
    assert read() == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert described(guarded, version) == []


def test_acls_are_stored_in_kafkas_nodes_and_are_there_after_a_restart(guarded: Guarded) -> None:
    create(
        guarded,
        creation("orders"),
        creation(
            "orders", "User:bob", operation=Operation.DESCRIBE_CONFIGS, permission=Permission.DENY, host="h"
        ),
        creation("a/b", resource_type=GROUP, pattern_type=PREFIXED),
    )
    nodes = guarded.machine.keeper.nodes
    assert json.loads(nodes["/kafka-acl/Topic/orders"].data) == {
        "version": 1,
        "acls": [
            {"principal": "User:alice", "permissionType": "Allow", "operation": "Read", "host": "*"},
            {"principal": "User:bob", "permissionType": "Deny", "operation": "DescribeConfigs", "host": "h"},
        ],
    }
    assert "/kafka-acl-extended/prefixed/Group/a%2Fb" in nodes
    guarded.machine.restart()
    guarded.admin = guarded.user("admin")
    assert described(guarded) == [
        ("orders", LITERAL, ["User:alice", "User:bob"]),
        ("a/b", PREFIXED, ["User:alice"]),
    ]


def test_a_wrong_acl_is_refused_and_leaves_the_others_alone(guarded: Guarded) -> None:
    bad = ErrorCode.INVALID_REQUEST
    assert create(
        guarded,
        creation("good"),
        creation("c", resource_type=CLUSTER),
        creation(""),
        creation(principal="alice"),
        creation(operation=Operation.ANY),
        creation(permission=Permission.ANY),
        creation(resource_type=ResourceType.ANY),
        creation(pattern_type=MATCH),
        creation("User:x", resource_type=USER, operation=Operation.CREATE_TOKENS),
        creation("good"),
    ) == [0, bad, bad, bad, bad, bad, bad, bad, 0, 0]  # fmt: skip
    assert described(guarded) == [("good", LITERAL, ["User:alice"]), ("User:x", LITERAL, ["User:alice"])]


@pytest.mark.parametrize("request_name", ["create_acls", "delete_acls", "describe_acls"])
def test_a_number_that_means_nothing_closes_the_connection(guarded: Guarded, request_name: str) -> None:
    request = REQUESTS[request_name](3, b"")
    item = next(iter(getattr(request, "creations", getattr(request, "filters", [request]))))
    for code in (0, 99):
        item.operation = code
        with pytest.raises(CloseConnection):
            guarded.admin.ask(request)


def test_filters_select_what_they_say(guarded: Guarded) -> None:
    create(
        guarded,
        creation("foo"),
        creation("*", "User:bob"),
        creation("fo", "User:bob", pattern_type=PREFIXED),
        creation("foo", "User:bob", resource_type=GROUP),
    )
    name = {"resource_type_filter": TOPIC, "resource_name_filter": "foo"}
    assert described(guarded, **name, pattern_type_filter=LITERAL) == [("foo", LITERAL, ["User:alice"])]
    assert [entry[0] for entry in described(guarded, **name, pattern_type_filter=MATCH)] == ["*", "fo", "foo"]
    assert len(described(guarded, principal_filter="User:bob")) == 3
    assert delete(guarded, **name, pattern_type_filter=MATCH, principal_filter="User:bob") == [
        ("*", "User:bob"), ("fo", "User:bob"),
    ]  # fmt: skip
    assert [entry[0] for entry in described(guarded)] == ["foo", "foo"]


def test_deleting_one_of_many_leaves_the_others_cve_2024_27309(guarded: Guarded) -> None:
    create(guarded, *(creation("t", f"User:u{number}") for number in range(100)))
    assert delete(guarded, principal_filter="User:u7") == [("t", "User:u7")]
    ((_, _, principals),) = described(guarded)
    assert set(principals) == {f"User:u{number}" for number in range(100)} - {"User:u7"}


def test_an_acl_that_two_filters_select_is_told_to_both(guarded: Guarded) -> None:
    create(guarded, creation())
    both = [DeleteAclsFilter(**selection()), DeleteAclsFilter(**selection(principal_filter="User:alice"))]
    answer = guarded.admin.send(DeleteAclsRequest(filters=both))
    assert [len(result.matching_acls) for result in answer.filter_results] == [1, 1]
    assert described(guarded) == []


def test_adds_to_one_node_at_the_same_time_lose_nothing(guarded: Guarded) -> None:
    machine, count = guarded.machine, 60
    machine.hold(WriteNodes)
    waiting = [
        guarded.user("admin").ask(CreateAclsRequest(creations=[creation("t", f"User:u{number}")]))
        for number in range(count)
    ]
    assert all(pending.answer is None for pending in waiting)
    machine.release()
    assert {pending.answer.results[0].error_code for pending in waiting} == {0}
    ((_, _, principals),) = described(guarded)
    assert len(principals) == count


def test_what_somebody_else_wrote_meanwhile_is_kept(guarded: Guarded) -> None:
    create(guarded, creation("t", "User:first"))
    machine = guarded.machine
    machine.hold(WriteNodes)
    pending = guarded.user("admin").ask(CreateAclsRequest(creations=[creation("t", "User:ours")]))
    path = "/kafka-acl/Topic/t"
    theirs = machine.keeper.nodes[path].data.replace(b"User:first", b"User:theirs")
    machine.write(Put(path, theirs))
    machine.release()
    assert pending.answer.results[0].error_code == ErrorCode.NONE
    assert described(guarded) == [("t", LITERAL, ["User:ours", "User:theirs"])]
