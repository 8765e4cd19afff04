"""Small and blocking: what the command line, Spark and tests ask of a cluster, over blocking sockets.

    client · errors · retry         `Client`, which puts the rest together; what is worth another try
    connection · cluster            one socket to one broker; who leads what
    security/ · properties          TLS and SASL; a cluster as Kafka's client properties describe it
    exchange                        one request for every leader, until every partition has its answer
    fetch · first_batches           raw record batches of one partition, and of many
    produce · offsets · groups · topics · transactions   the requests
    formats/ · registry_settings    keys and values as people read and write them, with a schema registry too
    transaction_states              transactions as coordinators and partitions see them
    snapshots                       what a cluster holds at a moment, for commands that watch it
    librdkafka/                     the other way to a cluster: confluent-kafka, for commands and products

It speaks to Ottla and to Apache Kafka 0.11 and later: every connection begins with ApiVersions. Topics are
named, never identified, so Fetch and Produce stop at version 12. Rules: one thread per client, and no thread
of its own; a record batch is read no further than its 61-byte header; every call ends, as what can be tried
again is tried until `timeout_s` has passed without progress. Left out: group membership (confluent-kafka has
it).

Not obvious: the names here are loaded when first asked for, as a command that needs one module of this
package should not wait for all of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.base.ids import TopicPartition
    from ottla.client.client import Client
    from ottla.client.errors import ClientError, OffsetOutOfRange
    from ottla.client.first_batches import Begun
    from ottla.client.groups import Committed
    from ottla.client.transactions import Transaction
    from ottla.records.fetched import Aborted, Fetched

__all__ = [
    "Aborted",
    "Begun",
    "Client",
    "ClientError",
    "Committed",
    "Fetched",
    "OffsetOutOfRange",
    "TopicPartition",
    "Transaction",
]
_MODULES = {
    "Aborted": "ottla.records.fetched",
    "Begun": "ottla.client.first_batches",
    "Client": "ottla.client.client",
    "ClientError": "ottla.client.errors",
    "Committed": "ottla.client.groups",
    "Fetched": "ottla.records.fetched",
    "OffsetOutOfRange": "ottla.client.errors",
    "TopicPartition": "ottla.base.ids",
    "Transaction": "ottla.client.transactions",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'ottla.client' has no attribute {name!r}")
