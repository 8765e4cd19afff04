"""Who is in a classic group: its members, which of them are static, who leads, what protocols they share.

Rules. Members stand in the order in which they came, and what has to be chosen among equals goes to the
first: a group's decisions depend on nothing but its history. While there are members there is a leader, and
at least one protocol that all of them support: `supports` is asked before somebody is let in or changed.

`held_bytes` is what all of them hold in memory, about, without what they are assigned, which is
`assigned_bytes`.

A *pending* member has been given a member id and asked to join again with it (KIP-394). It is not a member
yet, but a rebalance waits for it.
"""

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field

from ottla.base.errors import ErrorCode
from ottla.group.classic.member import ClassicMember, Protocols
from ottla.group.memory import PENDING_BYTES


@dataclass(slots=True)
class Roster:
    members: dict[str, ClassicMember] = field(default_factory=dict)
    instances: dict[str, str] = field(default_factory=dict)
    pending: set[str] = field(default_factory=set)
    leader: str | None = None
    supported: Counter[str] = field(default_factory=Counter)
    held_bytes: int = 0
    assigned_bytes: int = 0

    def fault(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Is this who it says it is? A static member's instance id belongs to the last one that came with
        it, and all earlier ones are fenced."""
        if instance_id is not None:
            owner = self.instances.get(instance_id)
            if owner is not None and owner != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
            if owner is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def member_id_of(self, member_id: str, instance_id: str | None) -> str:
        """Of the member that is meant: its instance id alone says so too."""
        if member_id or instance_id is None:
            return member_id
        return self.instances.get(instance_id, "")

    def add(self, member: ClassicMember) -> None:
        if member.instance_id is not None:
            assert member.instance_id not in self.instances
            self.instances[member.instance_id] = member.member_id
        self.forget_pending(member.member_id)
        self.members[member.member_id] = member
        self.held_bytes += member.held_bytes
        self.supported.update(member.protocols.keys())
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member_id: str) -> None:
        member = self.members.pop(member_id)
        self.held_bytes -= member.held_bytes
        self._forget(member.protocols)
        if member.instance_id is not None:
            del self.instances[member.instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)

    def replace(self, instance_id: str, new_id: str) -> ClassicMember:
        """The static member is back, under a new member id; it keeps what it had."""
        old_id = self.instances[instance_id]
        member = self.members.pop(old_id)
        self.held_bytes += len(new_id) - len(old_id)
        member.member_id, member.is_new = new_id, False
        self.members[new_id], self.instances[instance_id] = member, new_id
        if self.leader == old_id:
            self.leader = new_id
        return member

    def rename(self, member: ClassicMember, client_id: str, client_host: str) -> None:
        """It comes from another client now."""
        self.held_bytes += len(client_id) - len(member.client_id)
        member.client_id, member.client_host = client_id, client_host

    def change(self, member: ClassicMember, protocols: Protocols) -> None:
        self._forget(member.protocols)
        self.supported.update(protocols.keys())
        self.held_bytes -= member.held_bytes
        member.protocols = protocols
        self.held_bytes += member.held_bytes

    def assign(self, assignments: Mapping[str, bytes]) -> None:
        """Whoever is left out has none."""
        for member in self.members.values():
            member.assignment = assignments.get(member.member_id, b"")
        self.assigned_bytes = sum(len(member.assignment) for member in self.members.values())

    def expect(self, member_id: str) -> None:
        """It was told to join again with this id."""
        self.pending.add(member_id)
        self.held_bytes += PENDING_BYTES + len(member_id)

    def forget_pending(self, member_id: str) -> None:
        if member_id in self.pending:
            self.pending.remove(member_id)
            self.held_bytes -= PENDING_BYTES + len(member_id)

    def elect(self, joined: Container[str]) -> bool:
        """Make sure that the leader is one of those who have joined; False: there are none."""
        if self.leader not in joined:
            heir = next((member_id for member_id in self.members if member_id in joined), None)
            if heir is None:
                return False
            self.leader = heir
        return True

    def supports(self, names: Iterable[str]) -> bool:
        """Would somebody with these protocols have one in common with everybody here?"""
        return any(self.supported[name] == len(self.members) for name in names)

    def choose_protocol(self) -> str:
        """Each member votes for the one it likes best of those that all support."""
        votes = Counter(
            next(name for name in member.protocols if self.supported[name] == len(self.members))
            for member in self.members.values()
        )
        return votes.most_common(1)[0][0]

    def rebalance_timeout_ms(self) -> int:
        """The slowest member's."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def _forget(self, protocols: Protocols) -> None:
        for name in protocols:
            self.supported[name] -= 1
            if not self.supported[name]:
                del self.supported[name]
