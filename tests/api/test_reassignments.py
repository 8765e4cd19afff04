"""AlterPartitionReassignments, ListPartitionReassignments and ElectLeaders, asked of several brokers."""

from typing import Any

import pytest
from tests.broker.controllers import Controllers
from tests.broker.test_controller_writes import proposal

from ottla.base.errors import ErrorCode
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)

PREFERRED, UNCLEAN = 0, 1


def reassign(
    *replicas: int | None, topic: str = "t", partition: int = 0
) -> AlterPartitionReassignmentsRequest:
    """No replica: cancel."""
    wanted = [one for one in replicas if one is not None] if replicas else None
    one = ReassignablePartition(partition_index=partition, replicas=wanted)
    return AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic, partitions=[one])])


def moved(answer: Any) -> int:
    return answer.responses[0].partitions[0].error_code  # type: ignore[no-any-return]


def listed(answer: Any) -> list[tuple[str, int, list[int], list[int], list[int]]]:
    return [
        (topic.name, one.partition_index, one.replicas, one.adding_replicas, one.removing_replicas)
        for topic in answer.topics
        for one in topic.partitions
    ]


def elect(kind: int, *partitions: int, topic: str = "t") -> ElectLeadersRequest:
    some = [TopicPartitions(topic=topic, partitions=list(partitions))] if partitions else None
    return ElectLeadersRequest(election_type=kind, topic_partitions=some)


def elected(answer: Any) -> list[tuple[str, int, int]]:
    return [
        (topic.topic, one.partition_id, one.error_code)
        for topic in answer.replica_election_results
        for one in topic.partition_result
    ]


# Reassignments


@pytest.mark.parametrize("version", [0, 1])
def test_a_partition_is_moved_listed_and_done(version: int) -> None:
    cluster = Controllers(3)
    cluster.create("t", (1, 2))
    assert moved(cluster.ask(1, reassign(3, 2), version).answer) == ErrorCode.NONE
    everything = ListPartitionReassignmentsRequest(topics=None)
    assert listed(cluster.ask(1, everything).answer) == [("t", 0, [3, 2, 1], [3], [1])]
    cluster.ask(1, proposal(cluster, 1, 1, 2, 3))
    assert listed(cluster.ask(1, everything).answer) == []
    assert cluster.state("t")[:3] == (3, 1, (2, 3))
    assert cluster.brokers[2].image.topics["t"].assignment[0] == (3, 2)


def test_the_leader_that_goes_with_the_move_is_told_that_another_was_elected() -> None:
    cluster = Controllers(3)
    cluster.create("t", (1, 2))
    cluster.ask(1, reassign(3, 2))
    answer = cluster.ask(1, proposal(cluster, 1, 1, 2, 3)).answer
    assert answer.topics[0].partitions[0].error_code == ErrorCode.NEW_LEADER_ELECTED


def test_some_partitions_are_listed() -> None:
    cluster = Controllers(3)
    cluster.create("t", (1, 2), (1, 2))
    cluster.create("u", (1, 2))
    for topic, partition in (("t", 0), ("t", 1), ("u", 0)):
        cluster.ask(1, reassign(3, 2, topic=topic, partition=partition))
    topics = [
        ListPartitionReassignmentsTopics(name="t", partition_indexes=[1, 9]),
        ListPartitionReassignmentsTopics(name="nowhere", partition_indexes=[0]),
    ]
    answer = cluster.ask(1, ListPartitionReassignmentsRequest(topics=topics)).answer
    assert [row[:2] for row in listed(answer)] == [("t", 1)]


def test_a_move_is_cancelled_with_null_replicas() -> None:
    cluster = Controllers(3)
    cluster.create("t", (1, 2))
    assert moved(cluster.ask(1, reassign()).answer) == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    cluster.ask(1, reassign(3, 2))
    assert moved(cluster.ask(1, reassign()).answer) == ErrorCode.NONE
    assert set(cluster.brokers[1].image.topics["t"].assignment[0]) == {1, 2}


def test_what_cannot_be_moved_is_refused() -> None:
    cluster = Controllers(2)
    cluster.create("t", (1, 2))
    assert moved(cluster.ask(1, reassign(7)).answer) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert moved(cluster.ask(1, reassign(1, topic="nowhere")).answer) == unknown
    assert moved(cluster.ask(1, reassign(1, partition=4)).answer) == unknown
    request = reassign(1)
    request.allow_replication_factor_change = False
    assert moved(cluster.ask(1, request).answer) == ErrorCode.INVALID_REPLICATION_FACTOR


def test_only_the_controller_moves_and_elects() -> None:
    cluster = Controllers(2)
    cluster.create("t", (1, 2))
    for request in (reassign(2), ListPartitionReassignmentsRequest(topics=None), elect(PREFERRED, 0)):
        assert cluster.ask(2, request).answer.error_code == ErrorCode.NOT_CONTROLLER
    assert elected(cluster.ask(2, elect(PREFERRED, 0), 0).answer) == [("t", 0, ErrorCode.NOT_CONTROLLER)]


def test_a_move_whose_answer_from_the_keeper_is_lost_is_begun_once() -> None:
    for is_written in (True, False):
        cluster = Controllers(3)
        cluster.create("t", (1, 2))
        cluster.keeper.losing = [is_written]
        pending = cluster.ask(1, reassign(3, 2))
        cluster.tick()
        assert moved(pending.answer) == ErrorCode.NONE
        assert cluster.brokers[1].image.topics["t"].adding == {0: (3,)}


# Elections


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_preferred_leader_is_elected(version: int) -> None:
    cluster = Controllers(3)
    cluster.create("t", (2, 3), (3, 2))
    cluster.die(2)
    cluster.start(2)
    request = elect(PREFERRED, 0, 1, 5)
    refused = cluster.ask(1, request, version).answer
    assert elected(refused)[0] == ("t", 0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
    cluster.ask(1, proposal(cluster, 3, 3, 2))
    assert elected(cluster.ask(1, request, version).answer) == [
        ("t", 0, ErrorCode.NONE),
        ("t", 1, ErrorCode.ELECTION_NOT_NEEDED),
        ("t", 5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert cluster.state("t")[:2] == (2, 2)


def test_of_all_partitions_those_that_need_no_election_are_not_mentioned() -> None:
    cluster = Controllers(3)
    cluster.create("t", (2, 3), (3, 2))
    cluster.die(2)
    cluster.start(2)
    cluster.ask(1, proposal(cluster, 3, 3, 2))
    assert elected(cluster.ask(1, elect(PREFERRED)).answer) == [("t", 0, ErrorCode.NONE)]
    assert elected(cluster.ask(1, elect(PREFERRED)).answer) == []


def test_an_unclean_leader_is_elected_only_where_nobody_leads() -> None:
    cluster = Controllers(3)
    cluster.create("t", (2, 3))
    assert elected(cluster.ask(1, elect(UNCLEAN, 0)).answer) == [("t", 0, ErrorCode.ELECTION_NOT_NEEDED)]
    cluster.ask(1, proposal(cluster, 2, 2))
    cluster.die(2)
    assert cluster.state("t").leader == -1
    assert elected(cluster.ask(1, elect(UNCLEAN, 0)).answer) == [("t", 0, ErrorCode.NONE)]
    assert cluster.state("t")[:3] == (3, 2, (3,))
    cluster.die(3)
    nobody = elected(cluster.ask(1, elect(UNCLEAN, 0)).answer)
    assert nobody == [("t", 0, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)]


def test_an_election_of_an_unknown_kind_or_topic_is_refused() -> None:
    cluster = Controllers(1)
    assert cluster.ask(1, elect(7, 0)).answer.error_code == ErrorCode.INVALID_REQUEST
    answer = cluster.ask(1, elect(PREFERRED, 0, topic="nowhere")).answer
    assert elected(answer) == [("nowhere", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
