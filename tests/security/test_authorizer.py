"""Who may do what, by the ACLs there are: Kafka's rules."""

import time
import timeit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.security import authorizer as module
from ottla.security.acls import AclBinding, AclEntry, AclFilter, ResourcePattern
from ottla.security.authorizer import Authorizer
from ottla.security.authorizer_config import parse_super_users
from ottla.security.principals import Principal
from ottla.security.resources import Operation, PatternType, Permission, ResourceType

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE
DENY = Permission.DENY
ALICE, BOB, ADMIN = (Principal("User", name) for name in ("alice", "bob", "admin"))
HOST = "10.0.0.1"


def allow(who: str, operation: Operation, host: str = "*") -> AclEntry:
    return AclEntry(who, operation, Permission.ALLOW, host)


def deny(who: str, operation: Operation, host: str = "*") -> AclEntry:
    return AclEntry(who, operation, DENY, host)


def literal(name: str) -> ResourcePattern:
    return ResourcePattern(TOPIC, name)


def prefixed(name: str) -> ResourcePattern:
    return ResourcePattern(TOPIC, name, PatternType.PREFIXED)


def authorizer(
    acls: dict[ResourcePattern, list[AclEntry]], *, allows_without_acls: bool = False
) -> Authorizer:
    made = Authorizer(parse_super_users("User:admin; User:CN=x,O=y"), allows_without_acls=allows_without_acls)
    for pattern, entries in acls.items():
        made.replace(pattern, entries)
    return made


def test_nobody_may_do_anything_without_acls_but_super_users_and_everybody_where_that_is_said() -> None:
    assert not authorizer({}).allows(ALICE, HOST, READ, TOPIC, "t")
    assert authorizer({}).allows(ADMIN, HOST, READ, TOPIC, "t")
    assert authorizer({}).allows(Principal("User", "CN=x,O=y"), HOST, READ, TOPIC, "t")
    open_to_all = authorizer({literal("closed"): [allow("User:bob", READ)]}, allows_without_acls=True)
    assert open_to_all.allows(ALICE, HOST, READ, TOPIC, "t")
    assert not open_to_all.allows(ALICE, HOST, READ, TOPIC, "closed"), "an ACL speaks of it"


def test_a_denial_wins_over_whatever_allows_also_for_everybody_and_never_over_a_super_user() -> None:
    rules = authorizer({
        literal("*"): [allow("User:*", READ)],
        prefixed("pri"): [deny("User:alice", READ)],
        literal("private"): [allow("User:alice", READ), deny("User:admin", Operation.ALL)],
    })  # fmt: skip
    assert rules.allows(ALICE, HOST, READ, TOPIC, "public")
    assert not rules.allows(ALICE, HOST, READ, TOPIC, "private")
    assert rules.allows(BOB, HOST, READ, TOPIC, "private")
    assert rules.allows(ADMIN, HOST, READ, TOPIC, "private")


@pytest.mark.parametrize("operation", [READ, WRITE, Operation.DELETE, Operation.ALTER, DESCRIBE])
def test_what_changes_or_reads_implies_describe_and_its_denial_does_not_deny_it(operation: Operation) -> None:
    assert authorizer({literal("t"): [allow("User:alice", operation)]}).allows(
        ALICE, HOST, DESCRIBE, TOPIC, "t"
    )
    if operation != DESCRIBE:
        rules = authorizer({literal("t"): [allow("User:alice", DESCRIBE), deny("User:alice", operation)]})
        assert rules.allows(ALICE, HOST, DESCRIBE, TOPIC, "t")
        assert not rules.allows(ALICE, HOST, operation, TOPIC, "t")


def test_alter_configs_implies_describe_configs_and_create_implies_nothing() -> None:
    configs = authorizer({literal("t"): [allow("User:alice", Operation.ALTER_CONFIGS)]})
    assert configs.allows(ALICE, HOST, Operation.DESCRIBE_CONFIGS, TOPIC, "t")
    assert not configs.allows(ALICE, HOST, DESCRIBE, TOPIC, "t")
    create = authorizer({literal("t"): [allow("User:alice", Operation.CREATE)]})
    assert not create.allows(ALICE, HOST, DESCRIBE, TOPIC, "t")


def test_all_is_every_operation_and_hosts_and_types_of_resources_are_told_apart() -> None:
    rules = authorizer({literal("t"): [allow("User:alice", Operation.ALL, HOST)]})
    assert all(rules.allows(ALICE, HOST, operation, TOPIC, "t") for operation in (READ, WRITE, DESCRIBE))
    assert not rules.allows(ALICE, "10.0.0.2", READ, TOPIC, "t")
    assert not rules.allows(ALICE, HOST, READ, GROUP, "t")
    assert not rules.allows(ALICE, HOST, READ, TOPIC, "t2")


@pytest.mark.parametrize("written", ["2001:db8:0:0:0:0:0:1", "2001:DB8::1", "2001:0db8::0001", "2001:db8::1"])
def test_an_ipv6_host_is_the_same_however_it_is_written(written: str) -> None:
    """Kafka's tools store it in full, and a denial for it must not be lost."""
    rules = authorizer(
        {literal("t"): [allow("User:alice", READ), AclEntry("User:alice", READ, Permission.DENY, written)]}
    )
    assert not rules.allows(ALICE, "2001:db8::1", READ, TOPIC, "t")
    assert not rules.allows_any(ALICE, "2001:db8::1", READ, TOPIC)
    assert rules.allows(ALICE, "2001:db8::2", READ, TOPIC, "t")
    assert rules.allows(ALICE, "", READ, TOPIC, "t")


def test_a_change_holds_for_what_was_decided_before_and_a_prefix_that_is_gone_is_gone() -> None:
    rules = authorizer(
        {prefixed("a-"): [allow("User:alice", READ)], prefixed("b-"): [allow("User:bob", READ)]}
    )
    assert rules.allows(ALICE, HOST, READ, TOPIC, "a-1")
    rules.replace(prefixed("a-"), [])
    assert not rules.allows(ALICE, HOST, READ, TOPIC, "a-1")
    assert rules.allows(BOB, HOST, READ, TOPIC, "b-1")
    rules.replace(prefixed("b-"), [])
    assert not rules.allows(BOB, HOST, READ, TOPIC, "b-1")
    assert list(rules.bindings(AclFilter())) == []


def test_any_topic_will_do_unless_denials_cover_all_that_is_allowed_kip_679() -> None:
    def may_write(acls: dict[ResourcePattern, list[AclEntry]]) -> bool:
        return authorizer(acls).allows_any(ALICE, HOST, WRITE, TOPIC)

    yes, no = [allow("User:alice", WRITE)], [deny("User:*", WRITE)]
    assert not may_write({})
    assert authorizer({}).allows_any(ADMIN, HOST, WRITE, TOPIC)
    assert authorizer({}, allows_without_acls=True).allows_any(ALICE, HOST, WRITE, TOPIC)
    assert may_write({literal("t"): yes})
    assert may_write({prefixed("t"): yes, literal("t"): no})
    assert not may_write({literal("t"): [*yes, *no]})
    assert not may_write({literal("tea"): yes, prefixed("t"): no})
    assert not may_write({prefixed("tea"): yes, prefixed("t"): no})
    assert may_write({literal("*"): yes, prefixed("t"): no})
    assert not may_write({literal("*"): no, prefixed("t"): yes})
    assert not may_write({literal("t"): [allow("User:alice", READ)]})


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DECISIONS_MAX", 10)
    rules = authorizer({prefixed("t"): [allow("User:alice", READ)]})
    for number in range(100):
        assert rules.allows(ALICE, HOST, READ, TOPIC, f"t{number}")
    assert len(rules._decisions) <= 10


NAMES = st.text(alphabet="ab*", min_size=1, max_size=3)
ENTRIES = st.builds(
    AclEntry,
    st.sampled_from(["User:alice", "User:bob", "User:*"]),
    st.sampled_from([READ, WRITE, DESCRIBE, Operation.ALL]),
    st.sampled_from([Permission.ALLOW, DENY]),
    st.sampled_from(["*", HOST, "other"]),
)
PATTERNS = st.builds(
    ResourcePattern, st.just(TOPIC), NAMES, st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED])
)


@given(st.dictionaries(PATTERNS, st.lists(ENTRIES, min_size=1), max_size=6), NAMES, st.booleans())
def test_decisions_are_those_of_a_walk_over_all_acls(
    acls: dict[ResourcePattern, list[AclEntry]], name: str, open_to_all: bool
) -> None:
    rules = authorizer(acls, allows_without_acls=open_to_all)
    selection = AclFilter(TOPIC, name, PatternType.MATCH)
    said = list(rules.bindings(selection))
    assert set(said) == {
        AclBinding(p, entry)
        for p, entries in acls.items()
        if selection.matches_pattern(p)
        for entry in entries
    }
    mine = [
        entry for _, entry in said if entry.principal in {"User:alice", "User:*"} and entry.host != "other"
    ]
    denied = any(entry.permission == DENY and entry.operation in {READ, Operation.ALL} for entry in mine)
    allowed = any(entry.permission != DENY and entry.operation in {READ, Operation.ALL} for entry in mine)
    expected = not denied and allowed if said else open_to_all
    assert rules.allows(ALICE, HOST, READ, TOPIC, name) == expected


def test_ten_thousand_acls_make_no_decision_slow() -> None:
    """A millisecond is two hundred times what it takes; a walk over all would take ten. It is measured in
    processor time, and a busy machine may take several times as much."""
    rules = authorizer(
        {prefixed(f"team-{number}-"): [allow(f"User:u{number}", READ)] for number in range(10_000)}
    )
    names = iter([f"team-{number}-orders" for number in range(1_000)])
    seconds = timeit.timeit(
        lambda: rules.allows(ALICE, HOST, READ, TOPIC, next(names)), timer=time.process_time, number=1_000
    )
    assert seconds < 1
