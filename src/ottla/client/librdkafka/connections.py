"""Clients of confluent-kafka: for administration, producers, consumers."""

import logging
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ottla.base.command_error import USAGE, CommandError
from ottla.client.librdkafka.errors import REQUEST_S, explain

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import AdminClient

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
CONNECT_S = 3.0

_quiet = logging.getLogger("ottla.librdkafka")
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False


def admin(bootstrap: str) -> "AdminClient":
    from confluent_kafka.admin import AdminClient

    return AdminClient(_settings(bootstrap), logger=_quiet)


def producer(bootstrap: str, settings: Mapping[str, Any]) -> "Producer":
    from confluent_kafka import KafkaException, Producer

    try:
        return Producer(_settings(bootstrap) | dict(settings), logger=_quiet)
    except KafkaException as error:
        raise CommandError(explain(error), USAGE) from None


def consumer(bootstrap: str, settings: Mapping[str, Any]) -> "Consumer":
    """A consumer to be given its partitions. librdkafka wants the name of a group all the same."""
    from confluent_kafka import Consumer, KafkaException

    own = {
        "group.id": "ottla-cli",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "error",
    }
    try:
        return Consumer(_settings(bootstrap) | own | dict(settings), logger=_quiet)
    except KafkaException as error:
        raise CommandError(explain(error), USAGE) from None


def _settings(bootstrap: str) -> dict[str, Any]:
    probe(bootstrap)
    return {
        "bootstrap.servers": bootstrap,
        "client.id": "ottla-cli",
        "socket.timeout.ms": int(REQUEST_S * 1000),
    }


def probe(bootstrap: str) -> None:
    """Refuse at once what librdkafka would try again and again in silence: nobody listens there."""
    problem = ""
    for address in bootstrap.split(","):
        host, colon, port = address.strip().rpartition(":")
        if not colon or not port.isdigit():
            raise CommandError(f"--bootstrap takes HOST:PORT, not {address.strip()!r}", USAGE)
        try:
            socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
        except (OSError, OverflowError, UnicodeError) as error:
            problem = problem or f"{getattr(error, 'strerror', None) or error}"
        else:
            return
    raise CommandError(
        f"no broker answers at {bootstrap} ({problem}); start one with `ottla start`, or use --bootstrap"
    )
