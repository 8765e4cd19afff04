"""Scripts that say with each request who they are. Who was let in is kept for a moment, so that not every
request connects to the cluster anew; and is tried again after that, so that a password that was changed ends.

Clients are closed when their time is over and nobody uses them.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from ottla.console.logins import Attempts, Login, RefusedError
from ottla.console.sessions import Session

KEPT_S = 60.0
CALLERS_MAX = 100


class Credentials(NamedTuple):
    user: str
    secret: str


def credentials_of(authorization: str, *, has_users: bool) -> Credentials:
    """What a header says. RefusedError: it is not what this console takes."""
    scheme, _, rest = authorization.strip().partition(" ")
    if scheme.lower() == "bearer" and not has_users:
        return Credentials("", rest.strip())
    if scheme.lower() != "basic" or not has_users:
        wanted = "Basic, with a user of the cluster" if has_users else "Bearer, with the console's token"
        raise RefusedError(f"This console takes Authorization: {wanted}.")
    try:
        user, colon, secret = base64.b64decode(rest.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        colon = ""
    if not colon:
        raise RefusedError("Basic is followed by USER:PASSWORD in base64.")
    return Credentials(user, secret)


@dataclass(slots=True)
class _Caller:
    session: Session
    until_s: float
    uses: int = 1


class Callers:
    def __init__(self, login: Login, attempts: Attempts, clock: Callable[[], float]) -> None:
        self._login = login
        self._attempts = attempts
        self._clock = clock
        self._callers: dict[bytes, _Caller] = {}
        self._lock = threading.Lock()
        self._pepper = secrets.token_bytes(32)  # no password is kept as it is

    @contextmanager
    def entered(self, credentials: Credentials, address: str) -> Iterator[Session]:
        """Blocks while the cluster is asked. RefusedError, TooManyError: they are not in; CommandError: the
        cluster does not answer."""
        digest = hmac.digest(self._pepper, repr(credentials).encode("utf-8", "replace"), hashlib.sha256)
        caller = self._attempts.guarded(
            address, lambda: self._kept(digest) or self._let_in(digest, credentials)
        )
        try:
            yield caller.session
        finally:
            with self._lock:
                caller.uses -= 1
            self.sweep()

    def sweep(self) -> None:
        """Close what is over; to be called from time to time."""
        now_s = self._clock()
        self._end(lambda caller: caller.uses == 0 and caller.until_s <= now_s)

    def end_all(self) -> None:
        self._end(lambda _: True)

    def _kept(self, digest: bytes) -> _Caller | None:
        with self._lock:
            caller = self._callers.get(digest)
            if caller is None or caller.until_s <= self._clock():
                return None
            caller.uses += 1
            return caller

    def _let_in(self, digest: bytes, credentials: Credentials) -> _Caller:
        name, cluster = self._login.log_in(*credentials)
        now_s = self._clock()
        caller = _Caller(Session(name, cluster, now_s, now_s), now_s + KEPT_S)
        with self._lock:
            other = self._callers.pop(digest, None)
            is_late = other is not None and other.until_s > now_s  # another request has logged in meanwhile
            if other is not None:
                self._callers[digest if is_late else secrets.token_bytes(32)] = other
            if is_late or len(self._callers) >= CALLERS_MAX:
                caller.until_s = now_s  # for this request alone
                digest = secrets.token_bytes(32)
            self._callers[digest] = caller
        return caller

    def _end(self, is_over: Callable[[_Caller], bool]) -> None:
        with self._lock:
            over = [key for key, caller in self._callers.items() if is_over(caller)]
            ended = [self._callers.pop(key) for key in over]
        for caller in ended:
            self._login.leave(caller.session.cluster)
