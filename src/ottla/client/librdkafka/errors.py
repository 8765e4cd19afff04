"""Errors of librdkafka and of brokers, as one line each."""

import contextlib
import difflib
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import Any

from ottla.base.command_error import USAGE, CommandError
from ottla.base.errors import ErrorCode

REQUEST_S = 15.0  # how long a request may take
_REQUEST_S = ContextVar("request_s", default=REQUEST_S)
DENIED = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "you are not allowed to do that with this topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "you are not allowed to do that with this group",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "you are not allowed to do that in this cluster",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "you are not allowed to use this transactional id",
}
_NO_PRODUCER_ID = "Failed to acquire idempotence PID"  # librdkafka; it takes Write on any topic (KIP-679)


def request_s() -> float:
    """How long a request about groups or offsets may take: REQUEST_S, or as `requests_within` says."""
    return _REQUEST_S.get()


@contextlib.contextmanager
def requests_within(seconds: float) -> Iterator[None]:
    token = _REQUEST_S.set(seconds)
    try:
        yield
    finally:
        _REQUEST_S.reset(token)


@contextlib.contextmanager
def errors_explained(doing: str = "") -> Iterator[None]:
    """Turn whatever a broker or librdkafka refuses into a `CommandError`."""
    from concurrent.futures import TimeoutError as FutureTimeout

    from confluent_kafka import KafkaError, KafkaException

    try:
        yield
    except (KafkaException, KafkaError, SystemError) as error:  # type: ignore[misc]  # raised by `is_dropped`
        reason = error.__cause__ if isinstance(error, SystemError) else error
        if not isinstance(reason, KafkaException | KafkaError):
            raise
        said = f"{doing}: {explain(reason)}" if doing else explain(reason)
        raise CommandError(said, kafka_error=kafka_name(reason)) from None
    except FutureTimeout:
        raise CommandError(f"{doing or 'the broker'}: no answer within {request_s():g} s") from None
    except ValueError as error:
        raise CommandError(f"{doing}: {error}" if doing else str(error), USAGE) from None


def _unframed(error: Any) -> Any:
    is_framed = isinstance(error, Exception) and error.args and not hasattr(error, "str")
    return error.args[0] if is_framed else error


def kafka_name(error: Any) -> str:
    """What Kafka calls it, if a broker said it; librdkafka has shorter names, and errors of its own."""
    inner = _unframed(error)
    code = inner.code() if hasattr(inner, "code") else 0
    return ErrorCode(code).name if code > 0 and code in set(ErrorCode) else ""


def explain(error: Any) -> str:
    """The reason in an exception or error of confluent-kafka, without the frame around it."""
    inner = _unframed(error)
    if not hasattr(inner, "str"):
        return str(inner)
    if inner.code() in DENIED:
        return denial(inner.code(), of_producer_id=_NO_PRODUCER_ID in str(inner.str()))
    said = str(inner.str() or "").strip()
    for frame in ("Unable to produce message: ", "Broker: ", "Local: "):
        said = said.removeprefix(frame)
    return said or str(inner.name())


def denial(code: int, *, of_producer_id: bool = False) -> str:
    """What somebody may not do, and who can change that; one of `DENIED`."""
    denied = "you are not allowed to write" if of_producer_id else DENIED[ErrorCode(code)]
    return f"{denied}; an administrator can allow it with `ottla acls add`"


def is_dropped(error: Any) -> bool:
    """Of a delivery report: was the record dropped since the producer cannot go on? Whatever the producer is
    asked next raises the reason. It may be on its way already: then to ask for the code here makes a
    SystemError of it or leaves it alone, and anything else could lose it."""
    from confluent_kafka import KafkaError

    return error.code() in (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)


def meant(name: str, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(names), 1)
    return f"; did you mean {near[0]!r}?" if near else ""
