"""The `kafka.*` options: what a Kafka consumer or producer could be told, and what becomes of it here.

Every name that Kafka's clients have is in one of these rows. What is honoured is used; what is ignored
tunes something this client does in another way, and leaving it out changes no row; what is refused would
change the result, so it is not swallowed. A name in no row is most likely misspelled, and is refused too.
What is about security, `ottla.client.security` knows.

The option `clientConfig` names a file of such settings, read in the driver: for what should stand in no
program. Options are above it.
"""

import difflib
from collections.abc import Mapping
from typing import NamedTuple

from ottla.base.command_error import CommandError
from ottla.base.properties import read_file
from ottla.client.errors import ClientError
from ottla.client.properties import layered
from ottla.client.security.names import is_security
from ottla.client.security.settings import ClientSecurity, client_security
from ottla.spark.errors import OptionError

PREFIX = "kafka."
CLIENT_CONFIG = "clientConfig"

READ_HONOURED = {
    "bootstrap.servers": "where the cluster is",
    "group.id": "the consumer group that progress is committed to, in place of a name made from "
    "groupIdPrefix",
    "client.id": "the name in the brokers' logs and quotas; default ottla-spark",
    "isolation.level": "read_committed (default) or read_uncommitted",
    "default.api.timeout.ms": "how long a query waits at its start for brokers that cannot be reached; "
    "default 10,000",
    "max.partition.fetch.bytes": "the most that one request for one partition brings; default 8 MiB",
}
WRITE_HONOURED = {
    "bootstrap.servers": "where the cluster is",
    "client.id": "the name in the brokers' logs and quotas; default ottla-spark",
    "acks": "all (default), 1 or 0",
    "enable.idempotence": "true (default) unless acks is 0 or 1",
    "compression.type": "none (default), gzip, snappy, lz4 or zstd",
    "batch.size": "the largest record batch in bytes; default 1,000,000 (a single larger record is a batch "
    "of its own)",
    "max.request.size": "the largest record batch that is sent; default 1,048,576",
    "max.block.ms": "how long a write waits at its start for brokers that cannot be reached; default "
    "10,000, and 30,000 in a stream",
    "delivery.timeout.ms": "how long one request is tried before the task fails; default 120,000",
    "transaction.timeout.ms": "with delivery=exactly-once: how long a batch may take; default 900,000",
}
READ_REFUSED = {
    "auto.offset.reset": "set startingOffsets to earliest or latest instead; offsets are kept by Spark, not "
    "by a consumer",
    "key.deserializer": "keys are bytes; cast or parse them with DataFrame functions",
    "value.deserializer": "values are bytes; cast or parse them with DataFrame functions",
    "enable.auto.commit": "progress is committed by the source; the option commitOffsets turns that off",
    "interceptor.classes": "interceptors are Java classes, and could change what is read",
}
WRITE_REFUSED = {
    "key.serializer": "keys are written as the bytes they are",
    "value.serializer": "values are written as the bytes they are",
    "transactional.id": "every task needs one of its own; delivery=exactly-once makes them",
    "partitioner.class": "it is a Java class; give a `partition` column instead",
    "interceptor.classes": "interceptors are Java classes, and could change what is written",
}
_BOTH_IGNORED = """
    auto.include.jmx.reporter client.dns.lookup connections.max.idle.ms enable.metrics.push
    metadata.max.age.ms metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy
    metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms
    receive.buffer.bytes reconnect.backoff.max.ms reconnect.backoff.ms request.timeout.ms
    retry.backoff.max.ms retry.backoff.ms send.buffer.bytes socket.connection.setup.timeout.max.ms
    socket.connection.setup.timeout.ms
"""
READ_IGNORED = frozenset(
    (
        _BOTH_IGNORED
        + """
    allow.auto.create.topics auto.commit.interval.ms check.crcs client.rack
    exclude.internal.topics fetch.max.bytes fetch.max.wait.ms fetch.min.bytes group.instance.id
    group.protocol group.remote.assignor heartbeat.interval.ms max.poll.interval.ms max.poll.records
    partition.assignment.strategy session.timeout.ms
"""
    ).split()
)
WRITE_IGNORED = frozenset(
    (
        _BOTH_IGNORED
        + """
    buffer.memory compression.gzip.level compression.lz4.level compression.zstd.level linger.ms
    max.in.flight.requests.per.connection metadata.max.idle.ms
    partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms
    partitioner.ignore.keys retries
"""
    ).split()
)
# What a file of settings may have for the other side.
_OF_EITHER = frozenset({*READ_HONOURED, *WRITE_HONOURED, *READ_IGNORED, *WRITE_IGNORED})


class KafkaOptions(NamedTuple):
    """Those that are honoured, without the prefix, and what they say about security."""

    settings: dict[str, str]
    security: ClientSecurity


def kafka_options(
    options: Mapping[str, str],
    honoured: Mapping[str, str],
    refused: Mapping[str, str],
    ignored: frozenset[str],
) -> KafkaOptions:
    """OptionError for what must not be passed over in silence."""
    given = {
        name[len(PREFIX) :].lower(): value
        for name, value in options.items()
        if name.lower().startswith(PREFIX)
    }
    file = _file(options)
    for name in [*given, *file]:
        if name in refused:
            raise OptionError(f"option kafka.{name} is not supported: {refused[name]}")
        if name in honoured or name in ignored or is_security(name):
            continue
        if name in given or name not in _OF_EITHER:
            raise _unknown(name, [*honoured, *ignored])
    settings = layered(given, file)
    if not settings.get("bootstrap.servers", "").strip():
        raise OptionError("option kafka.bootstrap.servers must be specified: host:port, several with commas")
    try:
        security = client_security(settings)
    except ClientError as error:
        raise OptionError(f"option kafka.{error}") from None
    return KafkaOptions(
        {name: value.strip() for name, value in settings.items() if name in honoured}, security
    )


def _file(options: Mapping[str, str]) -> dict[str, str]:
    path = next((value for name, value in options.items() if name.lower() == CLIENT_CONFIG.lower()), "")
    try:
        return read_file(path) if path.strip() else {}
    except CommandError as error:
        raise OptionError(f"option {CLIENT_CONFIG}: {error}") from None


def _unknown(name: str, names: list[str]) -> OptionError:
    near = difflib.get_close_matches(name, names, 1)
    meant = f"; did you mean kafka.{near[0]}?" if near else ""
    return OptionError(f"option kafka.{name} is not known{meant}")
