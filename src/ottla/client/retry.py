"""Deadlines, and trying again until one has passed.

A broker that dies, moves a partition or restarts is an everyday event, so nothing that it may be the reason
of is an error before the deadline. A topic that nobody knows is different: it is most likely a wrong name,
and is given little time, enough for the news of a new topic to reach every broker. Whoever waits for long is
told what for.
"""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from ottla.client.errors import UNKNOWN_TOPIC, Again, ClientError
from ottla.wire.primitives import ProtocolError

T = TypeVar("T")

log = logging.getLogger(__name__)

PAUSE_S_MIN = 0.02
PAUSE_S_MAX = 1.0
UNKNOWN_TOPIC_S = 3.0
SILENCE_S = 5.0

# Of one attempt: so much for a broker that has stopped answering, and the rest of the time for others.
CONNECT_S = 5.0
ANSWER_S = 15.0


class Deadline:
    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._start = time.monotonic()

    @property
    def gone_s(self) -> float:
        return time.monotonic() - self._start

    @property
    def left_s(self) -> float:
        return self.timeout_s - self.gone_s

    def within(self, most_s: float) -> float:
        """How long one step may take; TimeoutError if there is no time left."""
        left = self.left_s
        if left <= 0:
            raise TimeoutError(f"no time is left of {self.timeout_s:g} s")
        return min(left, most_s)


def until(deadline: Deadline, what: str, attempt: Callable[[], T]) -> T:
    """What `attempt` gives, tried again while it fails for a reason that may pass.

    Of the last attempt often nothing is known but that there was no time for it: then the reason is that of
    the one before.
    """
    pause = PAUSE_S_MIN
    reason: Exception | None = None
    is_said = False
    while True:
        try:
            return attempt()
        except (OSError, ProtocolError, Again) as error:
            if reason is None or not isinstance(error, TimeoutError):
                reason = error
            code = reason.code if isinstance(reason, Again) else None
            unknown = code in UNKNOWN_TOPIC
            left = min(deadline.left_s, UNKNOWN_TOPIC_S - deadline.gone_s if unknown else deadline.left_s)
            if left <= pause:
                raise ClientError(_gave_up(what, str(reason), deadline.gone_s, unknown), code) from error
            if not is_said and deadline.gone_s > SILENCE_S:
                is_said = True
                log.warning("%s; trying again for %.0f s", _joined(what, str(reason)), left)
        time.sleep(pause)
        pause = min(2 * pause, PAUSE_S_MAX)


def _gave_up(what: str, reason: str, after_s: float, unknown: bool) -> str:
    said = _joined(what, reason)
    return f"{said}; does the topic exist?" if unknown else f"{said} (given up after {after_s:.1f} s)"


def _joined(what: str, reason: str) -> str:
    return reason if reason.startswith(what) else f"{what}: {reason}"
