"""DescribeQuorum: the controller as a KRaft quorum of one."""

import pytest
from tests.api.harness import NOW, Machine
from tests.support.endpoints import plaintext

from ottla.base.errors import ErrorCode
from ottla.base.ids import KRAFT_TOPIC
from ottla.controller.registration import registration
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionData,
    TopicData,
)


def quorum(
    machine: Machine, version: int = 2, topic: str = KRAFT_TOPIC, index: int = 0
) -> DescribeQuorumResponse:
    asked = TopicData(topic_name=topic, partitions=[PartitionData(partition_index=index)])
    answer: DescribeQuorumResponse = machine.client().send(DescribeQuorumRequest(topics=[asked]), version)
    assert (answer.error_code, [one.topic_name for one in answer.topics]) == (ErrorCode.NONE, [topic])
    return answer


@pytest.mark.parametrize("version", range(3))
def test_the_controller_is_the_leader_and_only_voter_and_other_brokers_observe(version: int) -> None:
    machine = Machine()
    machine.write(*registration(2, plaintext("other", 9093), None))
    answer = quorum(machine, version)
    (metadata,) = answer.topics[0].partitions
    assert (metadata.error_code, metadata.leader_id) == (ErrorCode.NONE, 1)
    assert metadata.leader_epoch == machine.broker.image.controller_epoch
    assert [one.replica_id for one in metadata.current_voters] == [1]
    assert [one.replica_id for one in metadata.observers] == [2]
    ends = {one.log_end_offset for one in metadata.current_voters + metadata.observers}
    assert ends == {metadata.high_watermark} == {0}
    assert metadata.current_voters[0].last_fetch_timestamp == (NOW if version >= 1 else -1)
    listeners = [(node.node_id, one.host, one.port) for node in answer.nodes for one in node.listeners]
    assert listeners == ([(1, "localhost", 9092)] if version >= 2 else [])


@pytest.mark.parametrize(("topic", "index"), [("t", 0), (KRAFT_TOPIC, 1)])
def test_nothing_else_has_a_quorum(topic: str, index: int) -> None:
    (partition,) = quorum(Machine(), topic=topic, index=index).topics[0].partitions
    assert partition.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert partition.error_message


def test_while_nobody_has_the_seat_clients_are_told_to_ask_again() -> None:
    machine = Machine()
    machine.give_up_the_seat()  # to a broker that is gone already
    answer = quorum(machine)
    (metadata,) = answer.topics[0].partitions
    assert (metadata.error_code, metadata.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert answer.nodes == []
