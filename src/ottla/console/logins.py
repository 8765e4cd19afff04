"""How people get in: with a token that the console was started with, or as users of the cluster.

Where the listener asks for SASL, the console has no rights of its own: a session uses clients that are logged
in as its user, so the cluster decides what that user sees and changes. Else everybody who has the token does
what the console's own client may do.
"""

import hmac
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol, TypeVar

from ottla.base.command_error import CommandError
from ottla.client.librdkafka.connections import NoBrokerError, probe
from ottla.client.properties import ClientProperties
from ottla.client.security.sasl_settings import OAUTHBEARER, SaslSettings, TokenSettings
from ottla.console.cluster.view import ClusterView
from ottla.console.settings import ConsoleSettings

T = TypeVar("T")
FAILURES_MAX = 5  # of one address in WINDOW_S
FAILURES_IN_ALL_MAX = 50
WINDOW_S = 60.0
NAME_MAX = 256


class RefusedError(Exception):
    """Nobody gets in with that."""


class TooManyError(Exception):
    """Of logins that failed, from this address."""

    def __init__(self, wait_s: float) -> None:
        super().__init__(f"Too many attempts. Try again in {wait_s:.0f} s.")
        self.wait_s = wait_s


class Login(Protocol):
    def log_in(self, user: str, secret: str) -> tuple[str, ClusterView]:
        """The name of who is in, and the cluster as they see it. RefusedError: they are not in. CommandError:
        nobody can say, as the cluster does not answer."""

    def leave(self, cluster: ClusterView) -> None:
        """A session is over that saw the cluster like this."""

    def close(self) -> None:
        """The console ends."""


class TokenLogin:
    """All sessions share one view, with the rights of the console's own client."""

    def __init__(self, settings: ConsoleSettings) -> None:
        if not settings.token:
            raise ValueError("a console without users needs a token")
        self._token = settings.token
        self.cluster = ClusterView(settings.where)
        self.cluster.start()  # there is a history when the first one comes

    def log_in(self, user: str, secret: str) -> tuple[str, ClusterView]:  # noqa: ARG002
        if not hmac.compare_digest(secret.strip().encode(), self._token.encode()):
            raise RefusedError("That is not the token. It was printed when the console started.")
        return "token", self.cluster

    def leave(self, cluster: ClusterView) -> None:
        """Others may still use it."""

    def close(self) -> None:
        self.cluster.close()


class UserLogin:
    """A view for each session: what its user may see."""

    def __init__(self, settings: ConsoleSettings) -> None:
        self._where = settings.where

    def log_in(self, user: str, secret: str) -> tuple[str, ClusterView]:
        if not user or not secret or len(user) > NAME_MAX:
            raise RefusedError("A user has a name and a password.")
        where = as_user(self._where, user, secret)
        try:
            is_certain = probe(where)
        except NoBrokerError:
            raise  # which is no guess that was wrong
        except CommandError as error:
            raise RefusedError(f"The cluster does not let you in: {error}") from None
        if not is_certain:
            raise CommandError("the cluster takes too long to say who you are; try again")
        return user, ClusterView(where)

    def leave(self, cluster: ClusterView) -> None:
        cluster.close()

    def close(self) -> None:
        """Nothing is left when all sessions are over."""


def as_user(where: ClientProperties, user: str, secret: str) -> ClientProperties:
    """The same cluster, entered by somebody else."""
    configured = where.security.sasl
    assert configured is not None, "only a cluster with SASL has users"
    if configured.mechanism == OAUTHBEARER:
        sasl = SaslSettings(OAUTHBEARER, tokens=TokenSettings(token=secret))
    else:
        sasl = SaslSettings(configured.mechanism, user, secret)
    return replace(where, security=replace(where.security, sasl=sasl))


class Attempts:
    """Counts logins that failed, by address and in all, so that nobody can guess for long."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failures: deque[tuple[float, str]] = deque(maxlen=FAILURES_IN_ALL_MAX)
        self._lock = threading.Lock()

    def guarded(self, address: str, enter: Callable[[], T]) -> T:
        """Whoever enters, unless too many from there could not. To be called where `enter` is: whoever asks a
        thousand times at once is counted too."""
        wait_s = self.wait_s(address)
        if wait_s > 0:
            raise TooManyError(wait_s)
        try:
            return enter()
        except RefusedError:
            self.failed(address)
            raise

    def wait_s(self, address: str) -> float:
        """How long this address has to wait before it may try; 0 if it need not."""
        now_s = self._clock()
        with self._lock:
            while self._failures and now_s - self._failures[0][0] >= WINDOW_S:
                self._failures.popleft()
            own = [at_s for at_s, other in self._failures if other == address]
            if len(own) >= FAILURES_MAX:
                return own[-FAILURES_MAX] + WINDOW_S - now_s
            if len(self._failures) >= FAILURES_IN_ALL_MAX:
                return self._failures[0][0] + WINDOW_S - now_s
        return 0.0

    def failed(self, address: str) -> None:
        with self._lock:
            self._failures.append((self._clock(), address))
