"""Warnings about connections that a limit ends: a line a second at most, and every connection counts in one.

`Notices` are of one kind, such as connections that were refused.
"""

import logging

from ottla.base.log_fields import UNLIMITED, fields

log = logging.getLogger(__name__)

NOTICE_MS = 1_000  # one line in so long, however many connections there are


class Notices:
    def __init__(self, outcome: str) -> None:
        self._outcome = outcome
        self._said_ms = 0
        self._unsaid = 0

    def say(self, peer: str, reason: str, now_ms: int) -> None:
        if now_ms - self._said_ms < NOTICE_MS:
            self._unsaid += 1
            return
        more = f" (and {self._unsaid} more since the last such line)" if self._unsaid else ""
        named = fields(host=peer, reason=reason, left_out=self._unsaid or None)
        log.warning("connection from %s %s: %s%s", peer, self._outcome, reason, more, extra=named | UNLIMITED)
        self._said_ms, self._unsaid = now_ms, 0

    def sweep(self, now_ms: int) -> None:
        """Say how many were left out, if no other has followed that would have said it."""
        if self._unsaid and now_ms - self._said_ms >= NOTICE_MS:
            log.warning(
                "connections %s: %d more since the last such line", self._outcome, self._unsaid,
                extra=fields(left_out=self._unsaid) | UNLIMITED,
            )  # fmt: skip
            self._said_ms, self._unsaid = now_ms, 0
