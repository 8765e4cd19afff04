"""The options of `ottla acls` and `ottla quotas`, and what they mean; `tests/compat` has them with some."""

import pytest
from tests.cli.commands import Run

from ottla.base.command_error import CommandError
from ottla.cli.acls import selection
from ottla.cli.acls.selection import Resource, Selection
from ottla.security.acls import AclBinding, AclEntry, AclFilter, ResourcePattern
from ottla.security.resources import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType

ORDERS, BILLING = Resource(ResourceType.TOPIC, "orders"), Resource(ResourceType.GROUP, "billing")
CLUSTER = Resource(ResourceType.CLUSTER, CLUSTER_NAME)
ALICE = ("User:alice",)


def test_every_principal_operation_and_host_is_an_acl_of_its_own() -> None:
    wanted = Selection(
        (ORDERS,),
        None,
        ("User:a", "User:b"),
        ("h1", "h2"),
        (Operation.READ, Operation.WRITE),
        Permission.DENY,
    )
    assert sorted(wanted.bindings()) == sorted(
        AclBinding(ResourcePattern(*ORDERS), AclEntry(principal, operation, Permission.DENY, host))
        for principal in ("User:a", "User:b")
        for operation in (Operation.READ, Operation.WRITE)
        for host in ("h1", "h2")
    )


def test_without_more_words_all_is_allowed_from_everywhere_literally() -> None:
    assert Selection((ORDERS,), principals=ALICE).bindings() == [
        AclBinding(
            ResourcePattern(ResourceType.TOPIC, "orders", PatternType.LITERAL),
            AclEntry("User:alice", Operation.ALL, Permission.ALLOW, "*"),
        )
    ]


def test_the_cluster_is_never_a_prefix() -> None:
    wanted = Selection((CLUSTER, ORDERS), PatternType.PREFIXED, ALICE, operations=(Operation.DESCRIBE,))
    assert [binding.pattern.pattern_type for binding in wanted.bindings()] == [
        PatternType.LITERAL,
        PatternType.PREFIXED,
    ]


def test_a_producer_that_consumes_gets_what_both_need_once() -> None:
    wanted = Selection((ORDERS, BILLING), principals=ALICE, is_producer=True, is_consumer=True)
    assert {(binding.pattern.name, binding.entry.operation) for binding in wanted.bindings()} == {
        *(("orders", operation) for operation in (Operation.WRITE, Operation.CREATE, Operation.READ)),
        ("orders", Operation.DESCRIBE),
        ("billing", Operation.READ),
    }
    assert len(wanted.bindings()) == 5


def test_nothing_said_selects_everything_and_names_are_meant_as_the_command_means_them() -> None:
    assert Selection().filters(PatternType.LITERAL) == [AclFilter()]
    [wanted] = Selection((ORDERS,), principals=ALICE).filters(PatternType.LITERAL)
    assert wanted == AclFilter(ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:alice")
    [wanted] = Selection((ORDERS,), PatternType.MATCH).filters(PatternType.LITERAL)
    assert wanted.pattern_type is PatternType.MATCH


@pytest.mark.parametrize(
    ("text", "member"),
    [
        ("read", Operation.READ),
        ("DescribeConfigs", Operation.DESCRIBE_CONFIGS),
        ("ALTER_CONFIGS", Operation.ALTER_CONFIGS),
        ("cluster-action", Operation.CLUSTER_ACTION),
        ("all", Operation.ALL),
    ],
)
def test_operations_are_written_as_one_likes(text: str, member: Operation) -> None:
    assert selection.operation(text) is member


def test_a_user_needs_no_kind() -> None:
    assert [selection.principal(text) for text in ("alice", "User:alice", "*")] == [
        "User:alice",
        "User:alice",
        "User:*",
    ]


@pytest.mark.parametrize("text", ["unknown", "any", "", "reed"])
def test_an_operation_that_is_none_is_told_with_those_that_are(text: str) -> None:
    with pytest.raises(CommandError, match="All, Read, Write"):
        selection.operation(text)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("acls add --topic t", "say for whom: --principal User:NAME"),
        ("acls add -p a", "say what it is about"),
        ("acls add -p a -t t --pattern any", "literal or prefixed"),
        ("acls add -p a -t t --pattern wild", "--pattern is literal, prefixed, any or match, not 'wild'"),
        (
            "acls add -p a -t t -o ClusterAction",
            "--operation ClusterAction is not for a Topic, which has All, Alter",
        ),
        ("acls add -p a -t t --producer -o Read", "leave out --operation"),
        ("acls add -p a -t t --consumer", "--consumer takes --topic and --group"),
        ("acls add -p a -g g --producer", "--producer takes --topic"),
        ("acls add -p a -t t -g g --producer", "--producer takes --topic"),
        ("acls remove --producer -p a", "--producer and --consumer take --topic, or --group"),
        ("acls remove", "say which"),
        ("quotas add producer_byte_rate=1", "say whose"),
        ("quotas add --user a --default-user producer_byte_rate=1", "use one of them"),
        ("quotas add --user a --ip 1.2.3.4 producer_byte_rate=1", "--ip goes with neither"),
        ("quotas add --user a producer_byte_rate=much", "'much' is not a number from 0"),
        ("quotas add --user a producer_byte_rate=nan", "'nan' is not a number from 0"),
        ("quotas add --user a producer_byte_rate=-1", "'-1' is not a number from 0"),
        ("quotas add --user= producer_byte_rate=1", "--user is empty"),
        ("quotas remove", "say whose"),
    ],
)
def test_wrong_options_are_usage_errors_before_anybody_is_asked(run: Run, arguments: str, said: str) -> None:
    refused = run(*arguments.split(), "--bootstrap", "127.0.0.1:1")
    assert (refused.code, refused.out) == (2, "")
    assert said in refused.err


def test_a_broker_without_an_authorizer_is_told_apart_from_one_without_acls(quick: Run) -> None:
    for arguments in ("acls list", "acls add -p a -t t", "acls remove -p a --yes"):
        refused = quick(*arguments.split())
        assert (refused.code, refused.out) == (1, "")
        assert "the broker has no authorizer, so there are no ACLs; set authorizer.class.name=" in refused.err
