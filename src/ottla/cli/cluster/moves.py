"""The work behind `ottla cluster rebalance`: begin moves, so many at a time, until all are done.

Nothing is kept outside the cluster: what is moving is in the cluster, and whoever starts again plans from
where the moves under way will end, and waits for those too. So it can be interrupted and repeated at will.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from ottla.base.command_error import CommandError
from ottla.base.errors import ErrorCode
from ottla.client.admin.requests import Cluster
from ottla.controller.balance import Move, balance
from ottla.controller.leader_balance import Partition
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

Targets = dict[Partition, tuple[int, ...]]


class Moving(Protocol):
    """What a rebalancing needs of a cluster."""

    def assignment(self) -> Targets: ...
    def leaders(self) -> dict[Partition, int]: ...
    def moving(self) -> Targets: ...
    def begin(self, moves: Iterable[Move]) -> dict[Partition, str]: ...
    def prefer(self, partitions: Iterable[Partition]) -> list[Partition]: ...


@dataclass
class ClusterMoving:
    """The same, over the wire."""

    cluster: Cluster

    def assignment(self) -> Targets:
        return {
            (topic.name or "", partition.partition_index): tuple(partition.replica_nodes)
            for topic in self.cluster.topics()
            for partition in topic.partitions
        }

    def leaders(self) -> dict[Partition, int]:
        """Who leads, -1 where nobody does."""
        return {
            (topic.name or "", partition.partition_index): partition.leader_id
            for topic in self.cluster.topics()
            for partition in topic.partitions
        }

    def moving(self) -> Targets:
        """The partitions that are being moved, and where they will be."""
        answer = self.cluster.ask_controller(
            ListPartitionReassignmentsRequest(topics=None), ListPartitionReassignmentsResponse
        )
        _check(answer.error_code, answer.error_message)
        return {
            (topic.name, partition.partition_index): tuple(
                broker for broker in partition.replicas if broker not in partition.removing_replicas
            )
            for topic in answer.topics
            for partition in topic.partitions
        }

    def begin(self, moves: Iterable[Move]) -> dict[Partition, str]:
        """Ask for moves; answers those that were refused, and why."""
        topics: dict[str, ReassignableTopic] = {}
        for move in moves:
            topic = topics.setdefault(move.topic, ReassignableTopic(name=move.topic))
            topic.partitions.append(
                ReassignablePartition(partition_index=move.partition, replicas=list(move.after))
            )
        request = AlterPartitionReassignmentsRequest(topics=list(topics.values()))
        answer = self.cluster.ask_controller(request, AlterPartitionReassignmentsResponse)
        _check(answer.error_code, answer.error_message)
        return {
            (topic.name, partition.partition_index): partition.error_message
            or ErrorCode(partition.error_code).name
            for topic in answer.responses
            for partition in topic.partitions
            if partition.error_code
        }

    def prefer(self, partitions: Iterable[Partition]) -> list[Partition]:
        """Let the first replicas lead; answers where they cannot now."""
        topics: dict[str, TopicPartitions] = {}
        for name, index in partitions:
            topics.setdefault(name, TopicPartitions(topic=name)).partitions.append(index)
        answer = self.cluster.ask_controller(
            ElectLeadersRequest(topic_partitions=list(topics.values())), ElectLeadersResponse
        )
        _check(answer.error_code, None)
        return [
            (topic.topic, partition.partition_id)
            for topic in answer.replica_election_results
            for partition in topic.partition_result
            if partition.error_code not in {ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED}
        ]


def plan(moving: Moving, racks: Mapping[int, str | None]) -> tuple[Targets, Targets, list[Move]]:
    """What moves now, where everything will be when that has moved, and the moves from there to balance.

    What moves is asked first: if it arrives before the second question, that has the same answer.
    """
    ongoing = moving.moving()
    present = {**moving.assignment(), **ongoing}
    return ongoing, present, balance(present, racks)


def led_by_others(
    leaders: Mapping[Partition, int], present: Targets, racks: Mapping[int, str | None]
) -> list[Partition]:
    """Where the first replica does not lead, though its broker is there."""
    return [
        partition
        for partition, replicas in sorted(present.items())
        if replicas and replicas[0] in racks and leaders.get(partition, replicas[0]) != replicas[0]
    ]


@dataclass
class Rebalancing:
    """`pause` waits a moment; `report` is told how many of the moves are done."""

    moving: Moving
    at_once: int
    pause: Callable[[], None]
    report: Callable[[int], None]

    def run(self, moves: list[Move], ongoing: Iterable[Partition] = ()) -> dict[Partition, str]:
        """Carry out the moves, and wait for those under way before; answers what was refused."""
        waiting, refused = list(moves), dict[Partition, str]()
        under_way = set(ongoing)
        total = len(waiting) + len(under_way)
        while waiting or under_way:
            under_way &= self.moving.moving().keys()
            room = self.at_once - len(under_way)
            if waiting and room > 0:
                batch, waiting = waiting[:room], waiting[room:]
                refused |= self.moving.begin(batch)
                under_way |= {(move.topic, move.partition) for move in batch} - refused.keys()
            self.report(total - len(waiting) - len(under_way))
            if under_way:
                self.pause()
        return refused

    def prefer(self, partitions: Iterable[Partition], attempts: int) -> list[Partition]:
        """Leadership to the first replicas, which may need a moment; answers where they do not lead."""
        left = list(partitions)
        for attempt in range(attempts):
            if not left:
                break
            if attempt:
                self.pause()
            left = self.moving.prefer(left)
        return left


def _check(code: int, message: str | None) -> None:
    if code:
        raise CommandError(f"the controller refuses: {message or ErrorCode(code).name}")
