"""Clients of confluent-kafka: for administration, producers, consumers."""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ottla.base.addresses import Address
from ottla.base.command_error import USAGE, CommandError
from ottla.client.connection import Connection, UnreachableError
from ottla.client.errors import ClientError
from ottla.client.librdkafka.errors import explain, request_s
from ottla.client.librdkafka.java_names import JAVA_ONLY
from ottla.client.properties import ClientProperties, Where
from ottla.client.retry import Deadline
from ottla.client.security.handshakes import Handshakes
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse
from ottla.wire.primitives import ProtocolError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import AdminClient

CLIENT_ID = "ottla-cli"
CONNECT_S = 3.0
# What a consumer must be that is given its partitions. librdkafka wants the name of a group all the same.
ASSIGNED = {
    "group.id": CLIENT_ID,
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
}

_quiet = logging.getLogger("ottla.librdkafka")
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False


def admin(where: Where) -> "AdminClient":
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    try:
        return AdminClient(_settings(where, {}, {}), logger=_quiet)
    except KafkaException as error:
        raise CommandError(explain(error), USAGE) from None


def producer(
    where: Where, defaults: Mapping[str, Any], settings: Mapping[str, Any] | None = None
) -> "Producer":
    """The properties of `where` are over `defaults`, and `settings` over both."""
    from confluent_kafka import KafkaException, Producer

    try:
        return Producer(_settings(where, defaults, settings or {}), logger=_quiet)
    except KafkaException as error:
        raise CommandError(explain(error), USAGE) from None


def consumer(
    where: Where, defaults: Mapping[str, Any], settings: Mapping[str, Any] | None = None
) -> "Consumer":
    """To be given its partitions, unless `settings` say otherwise; these are over all others."""
    from confluent_kafka import Consumer, KafkaException

    try:
        return Consumer(_settings(where, defaults, ASSIGNED | dict(settings or {})), logger=_quiet)
    except KafkaException as error:
        raise CommandError(explain(error), USAGE) from None


def check(where: Where) -> None:
    """Refuse properties that librdkafka would, for a command that does without it."""
    from confluent_kafka import KafkaException, Producer

    others = properties_for_librdkafka(where)
    if others:
        try:
            Producer(others, logger=_quiet)
        except KafkaException as error:
            raise CommandError(explain(error), USAGE) from None


def properties_for_librdkafka(where: Where) -> dict[str, Any]:
    return {name: value for name, value in ClientProperties.of(where).others.items() if name not in JAVA_ONLY}


def _settings(where: Where, defaults: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    probe(where)
    properties = ClientProperties.of(where)
    own = {
        "bootstrap.servers": properties.bootstrap,
        "client.id": CLIENT_ID,
        "socket.timeout.ms": int(request_s() * 1000),
    }
    from ottla.client.librdkafka.security import librdkafka_security

    try:
        secure = librdkafka_security(properties.security)
    except ClientError as error:
        raise CommandError(str(error), USAGE) from None
    return own | dict(defaults) | properties_for_librdkafka(where) | dict(settings) | secure


class NoBrokerError(CommandError):
    """Nobody listens there."""


def probe(where: Where) -> bool:
    """Refuse at once what librdkafka would try again and again in silence: nobody listens there
    (NoBrokerError), or does not like how we come. False: somebody is there, and takes long to say."""
    properties, problem, closed = ClientProperties.of(where), "", ""
    handshakes = Handshakes(properties.security)
    for address in properties.bootstrap.split(","):
        host, colon, port = address.strip().rpartition("://")[2].rpartition(":")
        if not colon or not port.isdigit():
            raise CommandError(f"--bootstrap takes HOST:PORT, not {address.strip()!r}", USAGE)
        target = Address(host.strip("[]"), int(port))
        try:
            with Connection(target, CLIENT_ID, Deadline(CONNECT_S), handshakes) as connection:
                if handshakes.authentication is None:  # a port with SASL takes nothing more than ApiVersions
                    connection.call(MetadataRequest(topics=[]), MetadataResponse, Deadline(CONNECT_S))
        except (ClientError, ProtocolError) as error:
            raise CommandError(str(error)) from None
        except (OSError, OverflowError, UnicodeError) as error:
            if isinstance(error, TimeoutError) and not isinstance(error, UnreachableError):
                return False  # one that is slow gets more time from librdkafka
            problem = problem or f"{getattr(error, 'strerror', None) or error}"
            if type(error) is ConnectionError:  # ours: somebody is there, and did not like how we came
                closed = closed or f"broker {target}: {error}"
        else:
            return True
    raise NoBrokerError(
        closed
        or f"no broker answers at {properties.bootstrap} ({problem}); start one with `ottla start`, or use "
        "--bootstrap"
    )
