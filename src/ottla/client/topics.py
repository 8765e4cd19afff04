"""Topics: which there are, new ones, and old ones away."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager

from ottla.base.errors import ErrorCode
from ottla.client.cluster import Cluster
from ottla.client.connection import Connection
from ottla.client.errors import UNKNOWN_TOPIC, Again, check, code_of
from ottla.client.retry import Deadline, until
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.messages.metadata import MetadataResponse


def topics(cluster: Cluster, deadline: Deadline) -> list[str]:
    response = until(deadline, "asking for the topics", lambda: cluster.refresh(None, deadline))
    return sorted(topic.name for topic in response.topics if topic.name is not None and not topic.error_code)


def partitions(
    cluster: Cluster, names: Iterable[str], deadline: Deadline, *, may_create: bool = False
) -> dict[str, list[int]]:
    """With `may_create` a topic that is missing is an error, once the broker had time to create it: a real
    one does that while it already answers that it does not know it."""
    wanted = sorted(set(names))

    def attempt() -> MetadataResponse:
        response = cluster.refresh(wanted, deadline, may_create=may_create)
        for topic in response.topics:
            if may_create and code_of(topic.error_code) in UNKNOWN_TOPIC:
                raise Again(f"there is no topic {topic.name!r}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            if topic.error_code == ErrorCode.LEADER_NOT_AVAILABLE and not topic.partitions:
                raise Again(f"topic {topic.name!r} is being created", ErrorCode.LEADER_NOT_AVAILABLE)
        return response

    response = until(deadline, "asking for partitions", attempt)
    return {
        topic.name: sorted(partition.partition_index for partition in topic.partitions)
        for topic in response.topics
        if topic.name is not None and topic.partitions
    }


def create_topics(
    cluster: Cluster, counts: Mapping[str, int], config: Mapping[str, str], replicas: int, deadline: Deadline
) -> None:
    """`counts` are partitions by topic, -1 for the broker's default."""
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=name,
                num_partitions=count,
                replication_factor=replicas,
                configs=[CreatableTopicConfig(name=key, value=value) for key, value in config.items()],
            )
            for name, count in counts.items()
        ],
        timeout_ms=int(deadline.within(10.0) * 1000),
    )

    _have_done(
        cluster, deadline, "creating", lambda on: on.call(request, CreateTopicsResponse, deadline).topics
    )


def delete_topics(cluster: Cluster, names: Iterable[str], deadline: Deadline) -> None:
    request = DeleteTopicsRequest(topic_names=list(names), timeout_ms=int(deadline.within(10.0) * 1000))

    _have_done(
        cluster, deadline, "deleting", lambda on: on.call(request, DeleteTopicsResponse, deadline).responses
    )


def _have_done(
    cluster: Cluster,
    deadline: Deadline,
    action: str,
    ask: Callable[[Connection], Iterable[CreatableTopicResult | DeletableTopicResult]],
) -> None:
    """Ask the controller until it has done it for every topic."""

    def attempt() -> None:
        with controller(cluster, deadline) as connection:
            results = ask(connection)
        for topic in results:
            check(topic.error_code, f"{action} topic {topic.name!r}", topic.error_message)

    until(deadline, f"{action} topics", attempt)


def controller(cluster: Cluster, deadline: Deadline) -> AbstractContextManager[Connection]:
    cluster.refresh([], deadline)
    if cluster.controller not in cluster.brokers:
        raise Again("the cluster has no controller at the moment", ErrorCode.NOT_CONTROLLER)
    return cluster.borrow(cluster.brokers[cluster.controller], deadline)
