"""Groups as an administrator sees them: state, members, and how far each partition has been read.

Everything is asked at once and then waited for, so that many groups take hardly longer than one.

Not obvious: librdkafka has no name for the states Assigning and Reconciling of the new protocol (KIP-848) and
calls them unknown; they are shown as Rebalancing. And offsets outlive their topic: such a partition has a
committed offset, but neither an end nor a lag.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.base.command_error import CommandError
from ottla.client.librdkafka import partition_offsets
from ottla.client.librdkafka.errors import errors_explained, explain, meant, request_s
from ottla.client.librdkafka.partition_offsets import Partition

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
LIST_SHARE = 0.5  # of all the time there is: who has answered by then is listed


class Listed(NamedTuple):
    id: str
    state: str
    type: str


class Member(NamedTuple):
    id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: list[Partition]
    target: list[Partition] | None  # what the new protocol wants it to have; not known to the classic one


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
        lags = [position.lag for position in self.positions if position.lag is not None]
        return sum(lags) if lags else None

    @property
    def is_there(self) -> bool:
        """Asked for a group nobody knows, Kafka describes a dead one."""
        return self.state != DEAD or bool(self.positions)


def listed(client: "AdminClient", say: Callable[[str], None]) -> list[Listed]:
    """`say` is told what is missing, if some brokers do not answer."""
    with errors_explained("the groups cannot be listed"):
        answer = client.list_consumer_groups(request_timeout=request_s() * LIST_SHARE).result(request_s())
        for error in answer.errors:
            if not answer.valid:
                raise error
            say(f"the groups of one broker are missing: {explain(error)}")
    groups = [
        Listed(group.group_id, STATES[group.state.name], group.type.name.lower()) for group in answer.valid
    ]
    return sorted(groups)


def described(client: "AdminClient", names: Iterable[str], *, with_metadata: bool = True) -> list[Group]:
    """The groups in the given order, those that are not there as well."""
    names = list(dict.fromkeys(names))
    if not names:
        return []
    offsets = _committed(client, names)
    descriptions = {name: _description(name, asked) for name, asked in _describe(client, names).items()}
    committed = {
        name: _offsets_of(name, asked, with_metadata=with_metadata) for name, asked in offsets.items()
    }
    members = {name: [_member(member) for member in descriptions[name].members] for name in names}
    partitions = {topic_partition for name in names for topic_partition in committed[name]} | {
        topic_partition for name in names for member in members[name] for topic_partition in member.assignment
    }
    ends = partition_offsets.ends(client, partitions)
    return [_group(descriptions[name], members[name], committed[name], ends) for name in names]


def existing(client: "AdminClient", names: Iterable[str], say: Callable[[str], None]) -> list[Group]:
    """The groups, all of which must be there."""
    groups = described(client, names)
    for group in groups:
        if not group.is_there:
            names = [listed_group.id for listed_group in listed(client, say)]
            raise CommandError(f"there is no group {group.id!r}{meant(group.id, names)}")
    return groups


def _describe(client: "AdminClient", names: list[str]) -> Mapping[str, Any]:
    with errors_explained():
        return client.describe_consumer_groups(names, request_timeout=request_s())


def _description(name: str, asked: Any) -> Any:
    with errors_explained(f"group {name}"):
        return asked.result(request_s())


def _committed(client: "AdminClient", names: list[str]) -> dict[str, Any]:
    from confluent_kafka import ConsumerGroupTopicPartitions

    asked: dict[str, Any] = {}
    with errors_explained():
        for name in names:  # librdkafka takes one group at a time
            asked |= client.list_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(name)], request_timeout=request_s()
            )
    return asked


def _offsets_of(name: str, asked: Any, *, with_metadata: bool) -> dict[Partition, tuple[int, str]]:
    """Committed offsets with their metadata strings."""
    with errors_explained(f"group {name}"):
        committed = asked.result(request_s()).topic_partitions
    return {
        (offset.topic, offset.partition): (offset.offset, _metadata(offset) if with_metadata else "")
        for offset in committed
        if offset.error is None and offset.offset >= 0
    }


def _metadata(committed: Any) -> str:
    """confluent-kafka reads past the end of it, and fails if what it finds there is no text."""
    try:
        return committed.metadata or ""
    except UnicodeDecodeError:
        return ""


def _member(described_member: Any) -> Member:
    return Member(
        described_member.member_id,
        described_member.group_instance_id,
        described_member.client_id,
        described_member.host.removeprefix("/"),
        _partitions(described_member.assignment),
        None
        if described_member.target_assignment is None
        else _partitions(described_member.target_assignment),
    )


def _partitions(assignment: Any) -> list[Partition]:
    return sorted((assigned.topic, assigned.partition) for assigned in assignment.topic_partitions)


def _group(
    description: Any,
    members: list[Member],
    committed: Mapping[Partition, tuple[int, str]],
    ends: Mapping[Partition, int],
) -> Group:
    owners = {topic_partition: member for member in members for topic_partition in member.assignment}
    positions = []
    for topic_partition in sorted({*committed, *owners}):
        offset, metadata = committed.get(topic_partition, (None, ""))
        positions.append(
            Position(
                *topic_partition, offset, ends.get(topic_partition), metadata, owners.get(topic_partition)
            )
        )
    node = description.coordinator
    return Group(
        description.group_id,
        STATES[description.state.name],
        description.type.name.lower(),
        description.is_simple_consumer_group,
        description.partition_assignor or None,
        (node.id, node.host, node.port),
        sorted(members),
        positions,
    )
