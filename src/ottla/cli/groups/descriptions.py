"""Groups as `ottla groups` sees them: state, members, and how far each partition has been read.

Everything is asked at once and then waited for, so that many groups take hardly longer than one.

Not obvious: librdkafka has no name for the states Assigning and Reconciling of the new protocol (KIP-848) and
calls them unknown; they are shown as Rebalancing. And offsets outlive their topic: such a partition has a
committed offset, but neither an end nor a lag.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.base.command_error import CommandError
from ottla.cli import output
from ottla.client.librdkafka import partition_offsets
from ottla.client.librdkafka.errors import REQUEST_S, errors_explained, explain, meant
from ottla.client.librdkafka.partition_offsets import Where

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

DEAD, EMPTY, REBALANCING = "Dead", "Empty", "Rebalancing"
# By the name in confluent-kafka, as Kafka writes them.
STATES = {
    "STABLE": "Stable",
    "EMPTY": EMPTY,
    "DEAD": DEAD,
    "PREPARING_REBALANCING": "PreparingRebalance",
    "COMPLETING_REBALANCING": "CompletingRebalance",
    "UNKNOWN": REBALANCING,
}
TYPES = ("classic", "consumer")
LIST_S = 8.0  # less than all the time there is: who has answered by then is listed


class Listed(NamedTuple):
    id: str
    state: str
    type: str


class Member(NamedTuple):
    id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: list[Where]
    target: list[Where] | None  # what the new protocol wants it to have; not known to the classic one


class Position(NamedTuple):
    topic: str
    partition: int
    committed: int | None
    end: int | None
    metadata: str
    member: Member | None

    @property
    def lag(self) -> int | None:
        return partition_offsets.lag(self.committed, self.end)


class Group(NamedTuple):
    id: str
    state: str
    type: str
    is_simple: bool
    assignor: str | None
    coordinator: tuple[int, str, int]
    members: list[Member]
    positions: list[Position]

    @property
    def lag(self) -> int | None:
        known = [one.lag for one in self.positions if one.lag is not None]
        return sum(known) if known else None

    @property
    def is_there(self) -> bool:
        """Asked for a group nobody knows, Kafka describes a dead one."""
        return self.state != DEAD or bool(self.positions)


def listed(client: "AdminClient") -> list[Listed]:
    with errors_explained("the groups cannot be listed"):
        found = client.list_consumer_groups(request_timeout=LIST_S).result(REQUEST_S)
        for error in found.errors:
            if not found.valid:
                raise error
            output.say(f"the groups of one broker are missing: {explain(error)}")
    groups = [Listed(one.group_id, STATES[one.state.name], one.type.name.lower()) for one in found.valid]
    return sorted(groups)


def described(client: "AdminClient", names: Iterable[str], *, with_metadata: bool = True) -> list[Group]:
    """The groups in the given order, those that are not there as well."""
    names = list(dict.fromkeys(names))
    if not names:
        return []
    offsets = _committed(client, names)
    found = {name: _description(name, asked) for name, asked in _describe(client, names).items()}
    committed = {
        name: _offsets_of(name, asked, with_metadata=with_metadata) for name, asked in offsets.items()
    }
    members = {name: [_member(one) for one in found[name].members] for name in names}
    partitions = {where for name in names for where in committed[name]} | {
        where for name in names for member in members[name] for where in member.assignment
    }
    ends = partition_offsets.ends(client, partitions)
    return [_group(found[name], members[name], committed[name], ends) for name in names]


def existing(client: "AdminClient", names: Iterable[str]) -> list[Group]:
    """The groups, all of which must be there."""
    groups = described(client, names)
    for group in groups:
        if not group.is_there:
            known = [one.id for one in listed(client)]
            raise CommandError(f"there is no group {group.id!r}{meant(group.id, known)}")
    return groups


def _describe(client: "AdminClient", names: list[str]) -> Mapping[str, Any]:
    with errors_explained():
        return client.describe_consumer_groups(names, request_timeout=REQUEST_S)


def _description(name: str, asked: Any) -> Any:
    with errors_explained(f"group {name}"):
        return asked.result(REQUEST_S)


def _committed(client: "AdminClient", names: list[str]) -> dict[str, Any]:
    from confluent_kafka import ConsumerGroupTopicPartitions

    asked: dict[str, Any] = {}
    with errors_explained():
        for name in names:  # librdkafka takes one group at a time
            asked |= client.list_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(name)], request_timeout=REQUEST_S
            )
    return asked


def _offsets_of(name: str, asked: Any, *, with_metadata: bool) -> dict[Where, tuple[int, str]]:
    """Committed offsets with their metadata strings."""
    with errors_explained(f"group {name}"):
        found = asked.result(REQUEST_S).topic_partitions
    return {
        (one.topic, one.partition): (one.offset, _metadata(one) if with_metadata else "")
        for one in found
        if one.error is None and one.offset >= 0
    }


def _metadata(committed: Any) -> str:
    """confluent-kafka reads past the end of it, and fails if what it finds there is no text."""
    try:
        return committed.metadata or ""
    except UnicodeDecodeError:
        return ""


def _member(found: Any) -> Member:
    return Member(
        found.member_id,
        found.group_instance_id,
        found.client_id,
        found.host.removeprefix("/"),
        _places(found.assignment),
        None if found.target_assignment is None else _places(found.target_assignment),
    )


def _places(assignment: Any) -> list[Where]:
    return sorted((one.topic, one.partition) for one in assignment.topic_partitions)


def _group(
    found: Any,
    members: list[Member],
    committed: Mapping[Where, tuple[int, str]],
    ends: Mapping[Where, int],
) -> Group:
    owners = {where: member for member in members for where in member.assignment}
    positions = []
    for where in sorted({*committed, *owners}):
        offset, metadata = committed.get(where, (None, ""))
        positions.append(Position(*where, offset, ends.get(where), metadata, owners.get(where)))
    node = found.coordinator
    return Group(
        found.group_id,
        STATES[found.state.name],
        found.type.name.lower(),
        found.is_simple_consumer_group,
        found.partition_assignor or None,
        (node.id, node.host, node.port),
        sorted(members),
        positions,
    )
