"""When to read the keys again that verify tokens, and what is known of them until then.

They are read every `refresh_ms`. A token with an unknown key id has them read at once, but not within
`MISSING_MS` of the time before: anybody can make up key ids. What cannot be read is tried again, after ever
longer times, and the keys that are known stay good meanwhile.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.security.oauth_config import OAuthConfig

if TYPE_CHECKING:
    from ottla.security.tokens import Key

MISSING_MS = 10_000


class KeySet:
    """The keys at one address. `is_due` is True once for each time that they should be read."""

    def __init__(self, config: OAuthConfig, trust_file: str = "") -> None:
        self.url = config.url.strip()
        self.trust_file = trust_file  # the authorities that its host's certificate is from; "": the system's
        self.keys: Sequence[Key] = ()
        self._config = config
        self._due_ms = 0
        self._read_ms = 0  # when they were asked for last
        self._failures = 0
        self._is_missing = False
        self._is_being_read = False

    def on_missing(self) -> None:
        self._is_missing = True

    def is_due(self, now_ms: int) -> bool:
        if self._is_being_read:
            return False
        is_missed = self._is_missing and not self._failures and now_ms >= self._read_ms + MISSING_MS
        if now_ms < self._due_ms and not is_missed:
            return False
        self._is_being_read, self._is_missing, self._read_ms = True, False, now_ms
        return True

    def on_read(self, keys: "Sequence[Key]", now_ms: int) -> None:
        self.keys, self._failures = keys, 0
        self._is_being_read = False
        self._due_ms = now_ms + self._config.refresh_ms

    def on_failed(self, now_ms: int) -> None:
        wait_ms = min(
            self._config.retry_backoff_ms << min(self._failures, 30), self._config.retry_backoff_max_ms
        )
        self._failures += 1
        self._is_being_read = False
        self._due_ms = now_ms + wait_ms
