"""OffsetDelete: the one request of `ottla groups` that confluent-kafka does not have.

It goes to the group's coordinator, whose address the group's description gives.
"""

from collections.abc import Iterable
from typing import NamedTuple

from ottla.base.command_error import CommandError
from ottla.base.ids import TopicPartition
from ottla.client.librdkafka.errors import request_s
from ottla.client.properties import Where


class Refusal(NamedTuple):
    """An error code of Kafka, for a partition or, without one, for the whole request."""

    code: int
    topic: str | None = None
    partition: int | None = None


def delete_offsets(
    where: Where, host: str, port: int, group: str, topic_partitions: Iterable[tuple[str, int]]
) -> list[Refusal]:
    """Delete a group's committed offsets of some partitions; what was refused comes back."""
    from ottla.base.addresses import Address
    from ottla.client import ClientError, groups
    from ottla.client.admin.requests import brokers_of
    from ottla.client.retry import Deadline
    from ottla.wire.primitives import ProtocolError

    deadline = Deadline(request_s())
    try:
        with brokers_of(where) as brokers, brokers.borrow(Address(host, port), deadline) as connection:
            wanted = [TopicPartition(*topic_partition) for topic_partition in topic_partitions]
            refused = groups.delete_offsets(connection, group, wanted, deadline)
    except (OSError, ProtocolError, ClientError) as error:
        raise CommandError(f"the coordinator of group {group} at {host}:{port}: {error}") from None
    return [Refusal(code, *(topic_partition or ())) for topic_partition, code in refused.items()]
