"""A topic as the controller is about to write it: what the image says, changed by decisions.

A draft begins as the image. Decisions (`plan`, `isr`, `reassignment`) change it in turn, each seeing what
those before it did; then it is written in one go, or not at all. However many decisions changed a
partition, its partition epoch grows by one. Beside each change stands why it was made (`elected`, `left`,
`joined`), and in `alarms` what an operator must know.

A broker that the controller suspects to be gone (design note 008) is registered still, and to a partition it
is not there, where another replica can lead without it. Where none can, the suspicion changes nothing:
nobody would gain by a partition without a leader, or by an unclean one, and the suspect may live.
"""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition
from ottla.controller import znodes
from ottla.controller.causes import Cause, Reason
from ottla.controller.election import LOST, Around, Rule, elect, in_sync
from ottla.controller.image import BrokerEndpoint, Image, Topic
from ottla.controller.keeper import Operation, Put
from ottla.controller.znodes import NO_LEADER, State
from ottla.log.config import LogConfig


class Election(NamedTuple):
    before: int  # who led
    leader: int
    cause: Cause
    rule: Rule


class Alarm(NamedTuple):
    topic_partition: TopicPartition
    text: str

    def __str__(self) -> str:
        return f"{self.topic_partition}: {self.text}"


@dataclass(slots=True)
class Draft:
    image: Image
    topic: Topic
    config: LogConfig
    suspected: AbstractSet[int] = frozenset()
    states: dict[int, State] = field(init=False)
    assignment: dict[int, tuple[int, ...]] = field(init=False)
    adding: dict[int, tuple[int, ...]] = field(init=False)
    removing: dict[int, tuple[int, ...]] = field(init=False)
    elected: dict[int, Election] = field(default_factory=dict)  # by partition
    left: dict[tuple[int, int], Cause] = field(default_factory=dict)  # by partition and member of the ISR
    joined: dict[tuple[int, int], None] = field(default_factory=dict)  # likewise
    alarms: list[Alarm] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.states, self.assignment = dict(self.topic.states), dict(self.topic.assignment)
        self.adding, self.removing = dict(self.topic.adding), dict(self.topic.removing)

    def state(self, partition: int) -> State:
        if partition not in self.states or partition not in self.assignment:
            raise ApiError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {self.topic.name}-{partition}."
            )
        return self.states[partition]

    def around(self, partition: int, *, allows_unclean: bool | None = None) -> Around:
        replicas = self.assignment[partition]
        there = endpoints(self.image, self.topic.name, partition, replicas)
        isr_min = min(self.config.min_insync_replicas, len(replicas))
        if not self.suspected.isdisjoint(there):
            others = {broker: endpoint for broker, endpoint in there.items() if broker not in self.suspected}
            without = Around(replicas, others, isr_min)
            if elect(self.states[partition], without) is not None:
                return without
        if allows_unclean is None:
            allows_unclean = self.config.unclean_leader_election_enable
        return Around(replicas, there, isr_min, allows_unclean)

    def put(self, partition: int, state: State, cause: Cause | None = None, rule: Rule | None = None) -> None:
        """Without a cause, it is what has become of whoever led, or was in sync, before."""
        before = self.states[partition]
        if state == before:
            return
        epoch = self.topic.states[partition].partition_epoch + 1
        self.states[partition] = state._replace(partition_epoch=epoch)
        for member, recorded_epoch in in_sync(before).items():
            if member not in state.isr:
                self.left[partition, member] = cause or self._fate(partition, member, recorded_epoch)
                self.joined.pop((partition, member), None)
        for member in state.isr:
            if member not in before.isr and self.left.pop((partition, member), None) is None:
                self.joined[partition, member] = None
        if (state.leader, state.leader_epoch) != (before.leader, before.leader_epoch):
            self._on_elected(partition, before, state, cause, rule or Rule.ISR)

    def _on_elected(
        self, partition: int, before: State, state: State, cause: Cause | None, rule: Rule
    ) -> None:
        self.elected.pop(partition, None)
        topic_partition = TopicPartition(self.topic.name, partition)
        if state.leader == NO_LEADER:
            self.alarms.append(Alarm(topic_partition, f"no leader; waits for one of {_ids(before)}"))
            return
        if cause is None and before.leader == NO_LEADER:
            cause = Cause(Reason.RETURNED, state.leader)
        elif cause is None:
            cause = self._fate(partition, before.leader, in_sync(before).get(before.leader, LOST))
        self.elected[partition] = Election(before.leader, state.leader, cause, rule)
        if rule is Rule.UNCLEAN:
            lost = f"unclean election of broker {state.leader}: what only {_ids(before)} held is lost"
            self.alarms.append(Alarm(topic_partition, lost))
        elif rule is Rule.ALL_RESTARTED:
            self.alarms.append(Alarm(topic_partition, f"broker {state.leader} leads, though {rule.value}"))

    def _fate(self, partition: int, member: int, recorded_epoch: int) -> Cause:
        """Why somebody who led, or was in sync in that epoch, counts no more."""
        broker = self.image.brokers.get(member)
        if broker is None:
            return Cause(Reason.GONE, member)
        if (self.topic.name, partition) in self.image.offline.get(member, ()):
            return Cause(Reason.OFFLINE, member)
        if member in self.suspected:
            return Cause(Reason.SUSPECTED, member)
        if broker.epoch != recorded_epoch:
            return Cause(Reason.RESTARTED, member)
        return Cause(Reason.STOPPING if broker.is_stopping else Reason.REASSIGNED, member)

    def touch(self, partition: int) -> None:
        """Nothing but the next partition epoch: so that whoever proposed on the one before hears that it was
        not taken."""
        state = self.states[partition]
        if state == self.topic.states[partition]:
            self.states[partition] = state._replace(partition_epoch=state.partition_epoch + 1)

    @property
    def is_reassigned(self) -> bool:
        """Has the topic's own node changed?"""
        topic = self.topic
        return (self.assignment, self.adding, self.removing) != (
            topic.assignment,
            topic.adding,
            topic.removing,
        )

    def operations(self) -> list[Operation]:
        """The writes, each on the version it was decided on; nothing if nothing changed. The caller adds the
        fence."""
        topic, operations = self.topic, list[Operation]()
        if self.is_reassigned:
            data = znodes.topic_node(topic.id, self.assignment, self.adding, self.removing)
            operations.append(Put(znodes.topic_path(topic.name), data, topic.version))
        if self.states != topic.states:
            data = znodes.state_node(self.image.controller_epoch, self.states)
            operations.append(Put(znodes.state_path(topic.name), data, topic.state_version))
        return operations

    def is_what(self, topic: Topic | None) -> bool:
        """Does the image say now what this draft wanted?"""
        return (
            topic is not None
            and topic.id == self.topic.id
            and (topic.states, topic.assignment) == (self.states, self.assignment)
            and (topic.adding, topic.removing) == (self.adding, self.removing)
        )


def endpoints(
    image: Image, topic: str, partition: int, replicas: tuple[int, ...]
) -> dict[int, BrokerEndpoint]:
    """Of the replicas, those whose broker is registered and whose directory is not offline."""
    nowhere: frozenset[tuple[str, int]] = frozenset()
    return {
        broker: image.brokers[broker]
        for broker in replicas
        if broker in image.brokers and (topic, partition) not in image.offline.get(broker, nowhere)
    }


def _ids(state: State) -> str:
    return ", ".join(str(broker) for broker in dict.fromkeys((*state.isr, *state.elr))) or "nobody"
