"""What a cluster has, as a client of confluent-kafka sees it: brokers, topics, partitions."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ottla.base.command_error import CommandError
from ottla.base.errors import ErrorCode
from ottla.client.librdkafka.errors import errors_explained, meant, request_s

if TYPE_CHECKING:
    from confluent_kafka.admin._metadata import ClusterMetadata, TopicMetadata

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name


def metadata(client: Any) -> "ClusterMetadata":
    with errors_explained("the broker does not answer"):
        answer: ClusterMetadata = client.list_topics(timeout=request_s())
    return answer


def topic(client: Any, name: str) -> "TopicMetadata":
    """A topic that is there; asking for it does not create it."""
    topics = metadata(client).topics
    if name not in topics:
        raise CommandError(f"there is no topic {name!r}{meant(name, topics)}", kafka_error=UNKNOWN)
    return topics[name]


def partitions(client: Any, name: str, wanted: Iterable[int] = ()) -> list[int]:
    """The wanted partitions of a topic, all of which must be there; all of them if none is named."""
    there = sorted(topic(client, name).partitions)
    missing = sorted(set(wanted) - set(there))
    if missing:
        raise CommandError(
            f"topic {name} has no partition {missing[0]}, only {there[0]} to {there[-1]}", kafka_error=UNKNOWN
        )
    return sorted(set(wanted)) or there
