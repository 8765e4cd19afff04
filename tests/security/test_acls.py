"""ACLs and the filters that select them (KIP-290)."""

import pytest

from ottla.security.acls import AclBinding, AclEntry, AclError, AclFilter, ResourcePattern, check_binding
from ottla.security.resources import Operation, PatternType, Permission, ResourceType

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
LITERAL, PREFIXED, MATCH = PatternType.LITERAL, PatternType.PREFIXED, PatternType.MATCH
READ = AclEntry("User:a", Operation.READ)


@pytest.mark.parametrize(
    ("pattern_type", "name", "selected"),
    [
        (PatternType.ANY, None, {"foo", "*", "fo-", "foo-bar"}),
        (LITERAL, None, {"foo", "*"}),
        (LITERAL, "foo", {"foo"}),
        (LITERAL, "*", {"*"}),
        (PREFIXED, "fo-", {"fo-"}),
        (PREFIXED, "foo", set()),
        (PatternType.ANY, "fo-", {"fo-"}),
        (MATCH, "foo", {"foo", "*"}),
        (MATCH, "fo-x", {"fo-", "*"}),
        (MATCH, "foo-bar-x", {"foo-bar", "*"}),
    ],
)
def test_a_filter_selects_patterns_by_type_and_name_and_match_all_that_have_a_say(
    pattern_type: PatternType, name: str | None, selected: set[str]
) -> None:
    patterns = [
        ResourcePattern(TOPIC, "foo", LITERAL),
        ResourcePattern(TOPIC, "*", LITERAL),
        ResourcePattern(TOPIC, "fo-", PREFIXED),
        ResourcePattern(TOPIC, "foo-bar", PREFIXED),
    ]
    selection = AclFilter(TOPIC, name, pattern_type)
    assert {pattern.name for pattern in patterns if selection.matches_pattern(pattern)} == selected
    assert not AclFilter(GROUP, name, pattern_type).matches(AclBinding(patterns[0], READ))


def test_a_filter_selects_entries_by_principal_host_operation_and_permission() -> None:
    pattern = ResourcePattern(TOPIC, "t")
    binding = AclBinding(pattern, AclEntry("User:a", Operation.READ, Permission.DENY, "10.0.0.1"))
    assert AclFilter().matches(binding)
    assert AclFilter(principal="User:a", host="10.0.0.1", operation=Operation.READ).matches(binding)
    assert not AclFilter(principal="User:b").matches(binding)
    assert not AclFilter(host="*").matches(binding)
    assert not AclFilter(operation=Operation.ALL).matches(binding)
    assert not AclFilter(permission=Permission.ALLOW).matches(binding)


@pytest.mark.parametrize(
    ("binding", "problem"),
    [
        (AclBinding(ResourcePattern(ResourceType.ANY, "t"), READ), "Invalid resourceType ANY"),
        (AclBinding(ResourcePattern(TOPIC, "t", MATCH), READ), "Invalid patternType MATCH"),
        (AclBinding(ResourcePattern(TOPIC, ""), READ), "empty resource name"),
        (AclBinding(ResourcePattern(CLUSTER, "c"), READ), "is kafka-cluster"),
        (AclBinding(ResourcePattern(TOPIC, "t"), AclEntry("a", Operation.READ)), "not a principal"),
        (AclBinding(ResourcePattern(TOPIC, "t"), AclEntry("User:a", Operation.ANY)), "operation ANY"),
        (
            AclBinding(ResourcePattern(TOPIC, "t"), AclEntry("User:a", Operation.READ, Permission.ANY)),
            "permissionType ANY",
        ),
        (AclBinding(ResourcePattern(TOPIC, "t"), READ._replace(host="")), "empty host"),
    ],
)
def test_an_acl_that_cannot_be_is_refused(binding: AclBinding, problem: str) -> None:
    with pytest.raises(AclError, match=problem):
        check_binding(binding)
    check_binding(AclBinding(ResourcePattern(TOPIC, "*"), READ))
