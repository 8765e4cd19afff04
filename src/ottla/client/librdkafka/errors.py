"""Errors of librdkafka and of brokers, as one line each."""

import contextlib
import difflib
from collections.abc import Iterable, Iterator
from typing import Any

from ottla.base.command_error import USAGE, CommandError

REQUEST_S = 15.0  # how long a request may take


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


def meant(name: str, names: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(names), 1)
    return f"; did you mean {near[0]!r}?" if near else ""
