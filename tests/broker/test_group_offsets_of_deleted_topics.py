"""Committed offsets go with their topic."""

from tests.api.asking import create
from tests.api.harness import Client, Machine

from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic


def commit(client: Client, topic: str, offset: int) -> None:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topics = [OffsetCommitRequestTopic(name=topic, partitions=[partition])]
    answer = client.send(OffsetCommitRequest(group_id="g", member_id="", topics=topics), 5)
    assert answer.topics[0].partitions[0].error_code == 0


def committed(client: Client, topic: str) -> int:
    topics = [OffsetFetchRequestTopic(name=topic, partition_indexes=[0])]
    answer = client.send(OffsetFetchRequest(group_id="g", topics=topics), 5)
    offset: int = answer.topics[0].partitions[0].committed_offset
    return offset


def test_a_topic_made_again_under_the_name_of_a_deleted_one_has_no_committed_offsets() -> None:
    machine = Machine()
    client = machine.client()
    client.send(FindCoordinatorRequest(key="g"), 2)
    for name in ("t", "other"):
        create(client, name)
        commit(client, name, 7)
    client.send(DeleteTopicsRequest(topic_names=["t"], timeout_ms=1000), 5)
    create(client, "t")
    assert (committed(client, "t"), committed(client, "other")) == (-1, 7)
