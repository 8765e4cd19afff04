"""The way to a broker: connections of confluent-kafka, and its errors as one line each.

confluent-kafka is loaded when a command first connects. Its own log stays silent: what matters comes as an
error.
"""

import contextlib
import difflib
import logging
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from ottla.cli.errors import USAGE, CommandError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.admin._metadata import ClusterMetadata, TopicMetadata

T = TypeVar("T")

CONNECT_S = 3.0
REQUEST_S = 15.0
AGAIN_S = 0.1
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
DIRECTORY = Path("ottla-cluster")

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        "-b",
        metavar="HOST:PORT",
        envvar="OTTLA_BOOTSTRAP",
        help="A broker, or several with commas.",
    ),
]
Directory = Annotated[
    Path, typer.Option("--dir", metavar="DIR", help="The folder of the cluster: data, logs, cluster.json.")
]
MaybeBootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap", "-b", metavar="HOST:PORT", envvar="OTTLA_BOOTSTRAP",
        help="A broker, or several with commas; goes over --dir.", show_default=False,
    ),
]  # fmt: skip
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]

_quiet = logging.getLogger("ottla.librdkafka")
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False
logging.getLogger("ottla.client").addHandler(logging.NullHandler())  # commands say themselves what is wrong


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
    _probe(bootstrap)
    return {
        "bootstrap.servers": bootstrap,
        "client.id": "ottla-cli",
        "socket.timeout.ms": int(REQUEST_S * 1000),
    }


def _probe(bootstrap: str) -> None:
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


@contextlib.contextmanager
def errors_explained(doing: str = "") -> Iterator[None]:
    """Turn whatever a broker or librdkafka refuses into a `CommandError`."""
    from concurrent.futures import TimeoutError as FutureTimeout

    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as error:
        raise CommandError(f"{doing}: {explain(error)}" if doing else explain(error)) from None
    except FutureTimeout:
        raise CommandError(f"{doing or 'the broker'}: no answer within {REQUEST_S:.0f} s") from None
    except ValueError as error:
        raise CommandError(f"{doing}: {error}" if doing else str(error), USAGE) from None


def explain(error: Any) -> str:
    """The reason in an exception or error of confluent-kafka, without the frame around it."""
    inner = error.args[0] if isinstance(error, Exception) and error.args else error
    if not hasattr(inner, "str"):
        return str(inner)
    said = str(inner.str() or "").strip()
    for frame in ("Unable to produce message: ", "Broker: ", "Local: "):
        said = said.removeprefix(frame)
    return said or str(inner.name())


def metadata(client: Any) -> "ClusterMetadata":
    with errors_explained("the broker does not answer"):
        found: ClusterMetadata = client.list_topics(timeout=REQUEST_S)
    return found


def topic(client: Any, name: str) -> "TopicMetadata":
    """A topic that is there; asking for it does not create it."""
    topics = metadata(client).topics
    if name not in topics:
        raise CommandError(f"there is no topic {name!r}{meant(name, topics)}")
    return topics[name]


def partitions(client: Any, name: str, wanted: Iterable[int] = ()) -> list[int]:
    """The wanted partitions of a topic, all of which must be there; all of them if none is named."""
    there = sorted(topic(client, name).partitions)
    missing = sorted(set(wanted) - set(there))
    if missing:
        raise CommandError(f"topic {name} has no partition {missing[0]}, only {there[0]} to {there[-1]}")
    return sorted(set(wanted)) or there


def bounds(client: Any, topic: str, partition: int) -> tuple[int, int]:
    """The first offset of a partition, and the one behind its last record."""
    from confluent_kafka import TopicPartition

    place = TopicPartition(topic, partition)
    found: tuple[int, int] = patiently(lambda: client.get_watermark_offsets(place, timeout=REQUEST_S))
    return found


def patiently(ask: Callable[[], T]) -> T:
    """Ask again while a leader moves: librdkafka does that for produce and fetch, not for offsets."""
    from confluent_kafka import KafkaError, KafkaException

    moving = {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError._TRANSPORT,
    }
    deadline = time.monotonic() + REQUEST_S
    while True:
        try:
            return ask()
        except KafkaException as error:
            if error.args[0].code() not in moving or time.monotonic() > deadline:
                raise
        time.sleep(AGAIN_S)


def meant(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {near[0]!r}?" if near else ""
