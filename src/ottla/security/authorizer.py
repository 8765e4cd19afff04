"""Decides who may do what, from the ACLs there are, as Kafka's authorizer does.

A super user may do everything. Else all ACLs that have a say about the resource are asked: one that denies
wins over any that allows. An operation that changes or reads something implies DESCRIBE, and ALTER_CONFIGS
implies DESCRIBE_CONFIGS, where ACLs allow; a denial implies nothing. A resource that no ACL speaks of at all
is closed, or open to everybody (allow.everyone.if.no.acl.found).

A decision is remembered until ACLs change. One that is not: a lookup for the name, one for `*` and one for
every length that prefixes have, however many ACLs there are.
"""

from collections import Counter
from collections.abc import Collection, Iterator

from ottla.security.acls import EVERYBODY, AclBinding, AclEntry, AclFilter, ResourcePattern
from ottla.security.principals import Principal
from ottla.security.quotas import address_text
from ottla.security.resources import WILDCARD, Operation, PatternType, Permission, ResourceType

DECISIONS_MAX = 50_000
_IMPLIED_BY = {
    Operation.DESCRIBE: {
        Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER,
    },
    Operation.DESCRIBE_CONFIGS: {Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS},
}  # fmt: skip
_Entries = dict[str, tuple[AclEntry, ...]]  # by principal


class Authorizer:
    def __init__(self, super_users: Collection[Principal] = (), *, allows_without_acls: bool = False) -> None:
        self._super_users = frozenset(super_users)
        self._allows_without_acls = allows_without_acls
        self._patterns: dict[ResourcePattern, _Entries] = {}
        self._prefix_lengths: dict[ResourceType, Counter[int]] = {}
        self._decisions: dict[tuple[Principal, str, int, int, str | None], bool] = {}

    # -- the ACLs ---------------------------------------------------------------------------------

    def replace(self, pattern: ResourcePattern, entries: Collection[AclEntry]) -> None:
        """These are the ACLs of this pattern now, and there are no others."""
        self._decisions = {}
        was_there = self._patterns.pop(pattern, None) is not None
        if entries:
            by_principal: dict[str, list[AclEntry]] = {}
            for entry in entries:
                by_principal.setdefault(entry.principal, []).append(entry)
            self._patterns[pattern] = {who: tuple(theirs) for who, theirs in by_principal.items()}
        if pattern.pattern_type == PatternType.PREFIXED:
            lengths = self._prefix_lengths.setdefault(pattern.resource_type, Counter())
            lengths[len(pattern.name)] += bool(entries) - was_there
            if not lengths[len(pattern.name)]:
                del lengths[len(pattern.name)]

    def bindings(self, selection: AclFilter) -> Iterator[AclBinding]:
        for pattern, entries in self._patterns.items():
            if selection.matches_pattern(pattern):
                for theirs in entries.values():
                    for entry in theirs:
                        if selection.matches_entry(entry):
                            yield AclBinding(pattern, entry)

    # -- decisions --------------------------------------------------------------------------------

    def is_super_user(self, principal: Principal) -> bool:
        return principal in self._super_users

    def allows(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        key = (principal, host, operation, resource_type, name)
        decision = self._decisions.get(key)
        if decision is None:
            decision = self._decide(principal, host, operation, resource_type, name)
            self._remember(key, allowed=decision)
        return decision

    def allows_any(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Is there any resource of this type on which it is allowed? (KIP-679)"""
        key = (principal, host, operation, resource_type, None)
        decision = self._decisions.get(key)
        if decision is None:
            # A name that nobody uses, as Kafka does: it is allowed to super users, and where nothing is said.
            decision = self._decide(
                principal, host, operation, resource_type, "hardcode"
            ) or self._decide_any(principal, host, operation, resource_type)
            self._remember(key, allowed=decision)
        return decision

    def _remember(self, key: tuple[Principal, str, int, int, str | None], *, allowed: bool) -> None:
        if len(self._decisions) >= DECISIONS_MAX:
            self._decisions = {}
        self._decisions[key] = allowed

    def _decide(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        if principal in self._super_users:
            return True
        has_acls = is_allowed = False
        who, allowing = str(principal), _IMPLIED_BY.get(operation, {operation})
        for entries in self._entries_about(resource_type, name):
            has_acls = True
            for entry in (*entries.get(who, ()), *entries.get(EVERYBODY, ())):
                if not _is_for(entry, host):
                    continue
                if entry.permission == Permission.DENY:
                    if entry.operation in {Operation.ALL, operation}:
                        return False
                elif entry.permission == Permission.ALLOW:
                    is_allowed = is_allowed or entry.operation == Operation.ALL or entry.operation in allowing
        return is_allowed if has_acls else self._allows_without_acls

    def _entries_about(self, resource_type: ResourceType, name: str) -> Iterator[_Entries]:
        patterns = self._patterns
        literals = {name, WILDCARD}
        for literal in literals:
            entries = patterns.get(ResourcePattern(resource_type, literal))
            if entries:
                yield entries
        for length in self._prefix_lengths.get(resource_type, ()):
            if length <= len(name):
                entries = patterns.get(ResourcePattern(resource_type, name[:length], PatternType.PREFIXED))
                if entries:
                    yield entries

    def _decide_any(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """An allowing pattern counts unless a denial covers all of it."""
        allowed: list[ResourcePattern] = []
        denied: set[ResourcePattern] = set()
        who = str(principal)
        for pattern, entries in self._patterns.items():
            if pattern.resource_type != resource_type:
                continue
            for entry in (*entries.get(who, ()), *entries.get(EVERYBODY, ())):
                if _is_for(entry, host) and entry.operation in {Operation.ALL, operation}:
                    if entry.permission == Permission.DENY:
                        denied.add(pattern)
                    elif entry.permission == Permission.ALLOW:
                        allowed.append(pattern)
        return any(not _is_covered(pattern, denied) for pattern in allowed)


def _is_for(entry: AclEntry, host: str) -> bool:
    """An IPv6 address can be written in many ways: Kafka's tools have it in full, sockets in short."""
    if entry.host in {WILDCARD, host}:
        return True
    address = address_text(entry.host) if ":" in entry.host else None
    return address is not None and address == address_text(host)


def _is_covered(pattern: ResourcePattern, denied: Collection[ResourcePattern]) -> bool:
    kind, name, _ = pattern
    if ResourcePattern(kind, WILDCARD) in denied:
        return True
    if pattern == ResourcePattern(kind, WILDCARD):
        return False
    return pattern in denied or any(
        ResourcePattern(kind, name[:length], PatternType.PREFIXED) in denied
        for length in range(1, len(name) + 1)
    )
