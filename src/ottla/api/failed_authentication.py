"""How an authentication that failed ends: the answer, if there is one, waits for
connection.failed.authentication.delay.ms, and the connection ends with it. Nothing that was sent behind it is
heard, so that a connection is good for one guess.
"""

from typing import Any

from ottla.api.call import CloseConnection, LastAnswer
from ottla.broker.broker import Broker
from ottla.broker.parked import Parked


def ending(broker: Broker, connection: int, now_ms: int, reason: str, response: Any = None) -> Parked:
    """`response` None: there is no answer but the end."""
    broker.authentication.fail(connection)
    last = CloseConnection(reason) if response is None else LastAnswer(response, reason)
    return Parked(
        keys=(),
        deadline_ms=now_ms + broker.authentication.config.failure_delay_ms,
        ready=lambda _key, _now_ms: None,
        expire=lambda _now_ms: last,
    )
