"""Connections on listeners with SASL that have not authenticated. Each has so much time, and there are so
many at most: for one more, the one that has been there longest makes room.

So whoever opens connections and says nothing holds no more than that, and others get in: to authenticate
takes a few round trips, and only who needs longer than it takes so many others to come is in danger.
"""

from typing import Protocol

from ottla.security.sasl_config import SaslConfig


class Stranger(Protocol):
    def close(self, reason: str, *, over_limit: bool) -> None: ...


class Unauthenticated:
    def __init__(self) -> None:
        self._since_ms: dict[Stranger, int] = {}  # oldest first

    def __len__(self) -> int:
        return len(self._since_ms)

    def add(self, stranger: Stranger, config: SaslConfig, now_ms: int) -> None:
        while len(self._since_ms) >= config.unauthenticated_max:
            self._close(
                next(iter(self._since_ms)),
                f"it has not authenticated, nor have {config.unauthenticated_max} others, and one more came "
                "(ottla.unauthenticated.connections.max)",
            )
        self._since_ms[stranger] = now_ms

    def remove(self, stranger: Stranger) -> None:
        self._since_ms.pop(stranger, None)

    def sweep(self, config: SaslConfig, now_ms: int) -> None:
        """Close those whose time is up."""
        while self._since_ms:
            stranger, since_ms = next(iter(self._since_ms.items()))
            if now_ms - since_ms <= config.authentication_ms_max:
                return
            self._close(
                stranger,
                f"it has not authenticated in {config.authentication_ms_max} ms "
                "(ottla.authentication.timeout.ms)",
            )

    def _close(self, stranger: Stranger, reason: str) -> None:
        del self._since_ms[stranger]
        stranger.close(reason, over_limit=True)
