"""Small and blocking: what the command line, Spark and tests ask of a cluster, over plain sockets.

    errors      ClientError, and which codes are worth another try
    retry       deadlines, and trying again until one has passed
    connection  one socket to one broker: versions agreed on, requests out, answers in
    cluster     who leads what, and connections that wait to be used again
    exchange    one request for every leader that is concerned, until every partition has its answer
    fetch       raw record batches of one partition, one answer ahead of the reader
    first_batches   those of many partitions, in one request per leader
    produce · offsets · groups · topics   the requests
    client      `Client`, which puts them together
    librdkafka/ the other way to a cluster: confluent-kafka, for commands and products

It speaks to Ottla and to Apache Kafka 0.11 and later: every connection begins with ApiVersions and uses,
API by API, the newest version that both sides have. Topics are named, never identified, so Fetch and
Produce stop at 12.

Rules. One thread per client; no thread of its own. A record batch is opaque here: it is read no further
than its 61-byte header. Every call ends: what can be tried again is, until `timeout_s` has passed without
progress.

Left out: TLS and SASL, transactions, group membership (confluent-kafka has all of them).
"""

from ottla.base.ids import TopicPartition
from ottla.client.client import Client
from ottla.client.errors import ClientError, OffsetOutOfRange
from ottla.client.first_batches import Begun
from ottla.records.fetched import Aborted, Fetched

__all__ = ["Aborted", "Begun", "Client", "ClientError", "Fetched", "OffsetOutOfRange", "TopicPartition"]
