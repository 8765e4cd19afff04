"""What a group has committed: read, write and delete, without being a member of it.

A commit without a generation is taken only while the group has no members, which is what a reader that
assigns partitions to itself wants: should somebody join a group of that name, the commit fails instead of
moving them.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.client.cluster import Cluster
from ottla.client.connection import Connection
from ottla.client.errors import check, code_of
from ottla.client.exchange import by_topic
from ottla.client.retry import Deadline, until
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse

T = TypeVar("T")

GROUPS_IN_LISTS_SINCE = 8
_NO_GENERATION = -1


class Committed(NamedTuple):
    """An offset, and the text that was committed with it."""

    offset: int
    metadata: str


def commit_offsets(
    cluster: Cluster, group: str, offsets: Mapping[TopicPartition, int], metadata: str, deadline: Deadline
) -> None:
    topics = [
        OffsetCommitRequestTopic(
            name=topic,
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=number,
                    committed_offset=offsets[TopicPartition(topic, number)],
                    committed_metadata=metadata,
                )
                for number in numbers
            ],
        )
        for topic, numbers in by_topic(offsets).items()
    ]
    request = OffsetCommitRequest(
        group_id=group, generation_id_or_member_epoch=_NO_GENERATION, member_id="", topics=topics
    )
    what = f"committing offsets of group {group!r}"

    def attempt(connection: Connection) -> None:
        for topic in connection.call(request, OffsetCommitResponse, deadline).topics:
            for partition in topic.partitions:
                hint = _has_members(group) if partition.error_code == ErrorCode.UNKNOWN_MEMBER_ID else None
                check(
                    partition.error_code,
                    f"{what}, {TopicPartition(topic.name, partition.partition_index)}",
                    hint,
                )

    at_coordinator(cluster, group, what, attempt, deadline)


def committed(
    cluster: Cluster, group: str, deadline: Deadline, *, require_stable: bool = False
) -> dict[TopicPartition, Committed]:
    """All that the group has committed; nothing for a group that nobody knows. With `require_stable` what a
    transaction is about to commit is waited for, where something was committed before."""
    what = f"asking what group {group!r} has committed"

    def attempt(connection: Connection) -> dict[TopicPartition, Committed]:
        request = OffsetFetchRequest(
            group_id=group,
            topics=None,
            groups=[OffsetFetchRequestGroup(group_id=group, topics=None)],
            require_stable=require_stable,
        )
        version = connection.version_of(request.API_KEY, "OffsetFetch")  # type: ignore[attr-defined]
        response = connection.call(request, OffsetFetchResponse, deadline)
        answer: Any = response
        if version >= GROUPS_IN_LISTS_SINCE:
            (answer,) = response.groups
        if code_of(answer.error_code) is not ErrorCode.GROUP_ID_NOT_FOUND:
            check(answer.error_code, what)
        committed = {}
        for topic in answer.topics:
            for partition in topic.partitions:
                topic_partition = TopicPartition(topic.name, partition.partition_index)
                check(partition.error_code, f"{what}, {topic_partition}")
                if partition.committed_offset >= 0:
                    committed[topic_partition] = Committed(
                        partition.committed_offset, partition.metadata or ""
                    )
        return committed

    return at_coordinator(cluster, group, what, attempt, deadline)


def delete_offsets(
    connection: Connection, group: str, topic_partitions: Iterable[TopicPartition], deadline: Deadline
) -> dict[TopicPartition | None, int]:
    """Ask a group's coordinator to forget; the codes of what it refuses, under None for all of it."""
    topics = [
        OffsetDeleteRequestTopic(
            name=topic,
            partitions=[OffsetDeleteRequestPartition(partition_index=number) for number in numbers],
        )
        for topic, numbers in by_topic(sorted(topic_partitions)).items()
    ]
    request = OffsetDeleteRequest(group_id=group, topics=topics)
    response = connection.call(request, OffsetDeleteResponse, deadline)
    refused: dict[TopicPartition | None, int] = {None: response.error_code} if response.error_code else {}
    for topic in response.topics:
        for partition in topic.partitions:
            if partition.error_code:
                refused[TopicPartition(topic.name, partition.partition_index)] = partition.error_code
    return refused


def at_coordinator(
    cluster: Cluster, group: str, what: str, attempt: Callable[[Connection], T], deadline: Deadline
) -> T:
    def once() -> T:
        address = cluster.coordinator_of(group, deadline).address
        with cluster.borrow(address, deadline) as connection:
            return attempt(connection)

    return until(deadline, what, once)


def _has_members(group: str) -> str:
    return f"does a consumer use group {group!r}? A commit from outside needs a group without members"
