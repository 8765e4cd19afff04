"""Decisions about topics: create, grow, delete, configure. Each checks the rules and answers keeper
operations.

Rules: names and limits are Kafka's, and a broken one is an `ApiError` with Kafka's code; every write is
fenced by a check of `/controller_epoch` and conditional on the version it was decided on, so that a
decision taken on stale knowledge is refused by the keeper and never half applied.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ottla.base.config import ConfigError, override
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import check_topic_name, collision_key
from ottla.controller import znodes
from ottla.controller.image import Image, Topic
from ottla.controller.keeper import Check, Create, Delete, Operation, Put
from ottla.controller.placement import place
from ottla.controller.znodes import State
from ottla.log.config import LogConfig

DEFAULT = -1
PARTITIONS_PER_REQUEST_MAX = 10_000
FIRST_LEADER_EPOCH = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic somebody wants: counts, or the replicas of each partition spelled out."""

    name: str
    partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    assignment: Mapping[int, Sequence[int]] | None = None
    configs: Mapping[str, str | None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTopic:
    """`epochs`: the first leader epochs of partitions whose logs have seen some already."""

    name: str
    id: bytes
    assignment: dict[int, tuple[int, ...]]
    configs: dict[str, str]
    epochs: Mapping[int, int] = field(default_factory=dict)

    @property
    def replication_factor(self) -> int:
        return len(self.assignment[0])

    def operations(self, image: Image) -> list[Operation]:
        """The config node is there from the beginning, also if it is empty: whoever changes it then races
        with a deletion of the topic for the same node, and cannot leave one behind."""
        left = image.topic_configs.get(self.name)
        return [
            *fence(image),
            Create(znodes.topic_path(self.name), znodes.topic_node(self.id, self.assignment)),
            Create(
                znodes.state_path(self.name),
                znodes.state_node(image.controller_epoch, _states(image, self.assignment, self.epochs)),
            ),
            *plan_configs(znodes.topic_config_path(self.name), self.configs, left.version if left else None),
        ]


def plan_topic(
    image: Image, new: NewTopic, topic_id: bytes, defaults: LogConfig, *, partitions: int, replication: int
) -> PlannedTopic:
    """`partitions` and `replication` are what the broker gives a topic that asks for the default."""
    check_topic_name(new.name)
    _check_name_is_free(image, new.name)
    configs = check_configs(new.name, new.configs or {}, defaults)
    if new.assignment is not None:
        if new.partitions != DEFAULT or new.replication_factor != DEFAULT:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                "Give either a replica assignment or the number of partitions and replicas, not both.",
            )
        assignment = _check_assignment(image, new.assignment, first=0)
    else:
        count = partitions if new.partitions == DEFAULT else new.partitions
        factor = replication if new.replication_factor == DEFAULT else new.replication_factor
        if count <= 0:
            raise ApiError(ErrorCode.INVALID_PARTITIONS, "The number of partitions must be larger than 0.")
        check_partition_count(count)
        if factor <= 0:
            raise ApiError(
                ErrorCode.INVALID_REPLICATION_FACTOR, "The replication factor must be larger than 0."
            )
        assignment = place(*_usable(image, factor), range(count), factor, start=len(image.topics))
    return PlannedTopic(name=new.name, id=topic_id, assignment=assignment, configs=configs)


def plan_partitions(
    image: Image, topic: Topic, count: int, assignments: Sequence[Sequence[int]] | None
) -> tuple[list[Operation], int]:
    """More partitions for a topic: the operations, and how many are added."""
    present = max(topic.assignment) + 1
    if count <= present:
        reason = f"Topic {topic.name} has {present} partitions already"
        reason += "." if count == present else f"; it cannot be cut to {count}."
        raise ApiError(ErrorCode.INVALID_PARTITIONS, reason)
    check_partition_count(count - present)
    factor = len(topic.assignment[present - 1])
    if assignments is None:
        added = place(*_usable(image, factor), range(present, count), factor, start=len(image.topics))
    else:
        if len(assignments) != count - present:
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{count - present} partitions are to be added, {len(assignments)} assignments are given.",
            )
        if any(len(replicas) != factor for replicas in assignments):
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Every partition of {topic.name} has {factor} replicas.",
            )
        added = _check_assignment(image, dict(enumerate(assignments, present)), first=present)
    assignment = {**topic.assignment, **added}
    states = {**topic.states, **_states(image, added, {})}
    return [
        *fence(image),
        *same_topics(image),
        Put(znodes.topic_path(topic.name), _grown(topic, assignment), topic.version),
        Put(
            znodes.state_path(topic.name),
            znodes.state_node(image.controller_epoch, states),
            topic.state_version,
        ),
    ], count - present


def _grown(topic: Topic, assignment: dict[int, tuple[int, ...]]) -> bytes:
    return znodes.topic_node(topic.id, assignment, topic.adding, topic.removing)


def plan_reelection(image: Image, topic: Topic, broker_id: int) -> list[Operation]:
    """A broker goes on leading what it led, in the next epoch."""
    if all(state.leader != broker_id for state in topic.states.values()):
        return []
    states = {
        p: state._replace(leader_epoch=state.leader_epoch + 1, partition_epoch=state.partition_epoch + 1)
        if state.leader == broker_id
        else state
        for p, state in topic.states.items()
    }
    data = znodes.state_node(image.controller_epoch + 1, states)
    return [Put(znodes.state_path(topic.name), data, topic.state_version)]


def plan_deletion(image: Image, topic: Topic) -> list[Operation]:
    count: Operation = Put(znodes.DELETIONS, znodes.deletions_node())
    if image.deletions_version < 0:
        count = Create(znodes.DELETIONS, znodes.deletions_node())
    operations = [*fence(image), count, Delete(znodes.topic_path(topic.name), topic.version)]
    if topic.name in image.topic_configs:
        operations.append(Delete(znodes.topic_config_path(topic.name)))
    return operations


def check_configs(topic: str, configs: Mapping[str, str | None], defaults: LogConfig) -> dict[str, str]:
    """The configs of a topic, if each of them is known and legal."""
    for name, value in configs.items():
        if value is None:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"{name}: a null value is not allowed (topic {topic}).")
    given = {name: value for name, value in configs.items() if value is not None}
    try:
        override(defaults, given)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from None
    return given


def plan_configs(path: str, values: dict[str, str], version: int | None) -> list[Operation]:
    """Write a config node; `version` is that of the node as known, None where there is none yet."""
    data = znodes.config_node(values)
    return [Create(path, data) if version is None else Put(path, data, version)]


def fence(image: Image) -> list[Operation]:
    return [Check(znodes.CONTROLLER_EPOCH, image.controller_epoch_version)]


def same_topics(image: Image) -> list[Operation]:
    """A check that no topic was deleted since: one that was deleted and made again has nodes of the same
    names and versions, and a write about the old one would land in the new one."""
    version = image.deletions_version
    return [Check(znodes.DELETIONS, version)] if version >= 0 else []


def _states(
    image: Image, assignment: Mapping[int, tuple[int, ...]], epochs: Mapping[int, int]
) -> dict[int, State]:
    """New partitions: the first replica that is there leads, and all that are there are in sync. Those about
    to stop count only if there is nobody else."""
    states = {}
    staying = {endpoint.id for endpoint in image.brokers.values() if not endpoint.is_stopping}
    for p, replicas in assignment.items():
        isr = tuple(broker for broker in replicas if broker in staying)
        isr = isr or tuple(broker for broker in replicas if broker in image.brokers) or replicas
        isr_epochs = tuple(image.brokers[broker].epoch if broker in image.brokers else 0 for broker in isr)
        states[p] = State(isr[0], epochs.get(p, FIRST_LEADER_EPOCH), isr, isr_epochs=isr_epochs)
    return states


def _usable(image: Image, count: int) -> tuple[list[int], dict[int, str | None]]:
    """The brokers to place replicas on, with their racks: those that stay, if there are enough of them."""
    racks = {broker.id: broker.rack for broker in image.brokers.values() if not broker.is_stopping}
    if len(racks) < count:
        racks = {broker.id: broker.rack for broker in image.brokers.values()}
    return sorted(racks), racks


def _check_name_is_free(image: Image, name: str) -> None:
    if name in image.topics:
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    other = image.names_by_key.get(collision_key(name))
    if other is not None:
        raise ApiError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic '{other}'."
        )


def check_partition_count(count: int) -> None:
    if count > PARTITIONS_PER_REQUEST_MAX:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"A request may create at most {PARTITIONS_PER_REQUEST_MAX} partitions, not {count}.",
        )


def _check_assignment(
    image: Image, assignment: Mapping[int, Sequence[int]], *, first: int
) -> dict[int, tuple[int, ...]]:
    def refuse(reason: str) -> ApiError:
        return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)

    if sorted(assignment) != list(range(first, first + len(assignment))) or not assignment:
        raise refuse(f"Partitions must be numbered from {first} on, without a gap.")
    check_partition_count(len(assignment))
    sizes = {len(replicas) for replicas in assignment.values()}
    if len(sizes) != 1 or 0 in sizes:
        raise refuse("Every partition needs the same number of replicas, and at least one.")
    for partition, replicas in assignment.items():
        if len(set(replicas)) != len(replicas):
            raise refuse(f"Partition {partition} names a broker twice.")
        unknown = sorted(set(replicas) - set(image.brokers))
        if unknown:
            raise refuse(f"Partition {partition} names broker {unknown[0]}, which is not there.")
    return {partition: tuple(replicas) for partition, replicas in assignment.items()}
