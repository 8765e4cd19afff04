"""What a SASL mechanism is to a broker, and the steps of one connection, in Kafka's order:

    ApiVersions, if the client likes · SaslHandshake · SaslAuthenticate, until it is done

After SaslHandshake v0 tokens come as bare bytes, without SaslAuthenticate around them. Whoever has to
authenticate again (KIP-368) begins with SaslHandshake, and must come with the same mechanism and be the same.
"""

from collections.abc import Mapping
from enum import Enum, auto
from typing import NamedTuple, Protocol

from ottla.security.principals import Principal

AGAIN_MS_MIN = 1_000  # as in Kafka: nobody authenticates again more often


class AuthenticationError(Exception):
    """Somebody is not who they say. The text is for the log, never for them, and has no secret in it."""


class Step(NamedTuple):
    """The answer to a token. There is a `principal` once the exchange is complete; `lifetime_ms` is how long
    what they showed is good for, None if that has no end."""

    reply: bytes = b""
    principal: Principal | None = None
    lifetime_ms: int | None = None


class MechanismExchange(Protocol):
    """One attempt of one connection. It ends with a Step that has a principal, or with an
    AuthenticationError; nothing is asked of it after that."""

    def step(self, token: bytes, wall_ms: int) -> Step: ...


class Mechanism(Protocol):
    """`nonce` are NONCE_BYTES random bytes, used for nothing else."""

    def begin(self, nonce: bytes) -> MechanismExchange: ...


NONCE_BYTES = 32


class Stage(Enum):
    """What may come next."""

    VERSIONS_OR_HANDSHAKE = auto()
    HANDSHAKE = auto()
    TOKEN = auto()
    BARE_TOKEN = auto()
    COMPLETE = auto()
    FAILED = auto()  # nothing: the connection is about to end


class ServerExchange:
    """One connection's. `mechanisms` are those that its listener offers, `lifetimes_ms` how long each is good
    for, 0 for ever."""

    def __init__(self, mechanisms: Mapping[str, Mechanism], lifetimes_ms: Mapping[str, int]) -> None:
        self.stage = Stage.VERSIONS_OR_HANDSHAKE
        self.mechanism = ""
        self._mechanisms = mechanisms
        self._lifetimes_ms = lifetimes_ms
        self._attempt: MechanismExchange | None = None
        self._principal: Principal | None = None
        self._begun_again_ms: int | None = None

    @property
    def names(self) -> list[str]:
        return list(self._mechanisms)

    def may_begin_again(self, now_ms: int) -> bool:
        """Whether a handshake after its authentication begins another; if not, it is out of turn."""
        last_ms = self._begun_again_ms
        return last_ms is None or now_ms - last_ms >= AGAIN_MS_MIN

    def begin_again(self, now_ms: int) -> None:
        self._begun_again_ms = now_ms
        self.stage = Stage.HANDSHAKE

    def on_versions(self) -> None:
        self.stage = Stage.HANDSHAKE

    def handshake(self, mechanism: str, nonce: bytes, *, is_bare: bool) -> bool:
        """Whether there is such a mechanism here."""
        offered = self._mechanisms.get(mechanism)
        if offered is None:
            return False
        is_same = self._principal is None or mechanism == self.mechanism
        self.mechanism = mechanism
        self._attempt = offered.begin(nonce) if is_same else None
        self.stage = Stage.BARE_TOKEN if is_bare else Stage.TOKEN
        return True

    def authenticate(self, token: bytes, wall_ms: int) -> Step:
        """AuthenticationError: it is over."""
        if self._attempt is None:
            raise AuthenticationError(f"it wants to authenticate again with {self.mechanism}, not as before")
        step = self._attempt.step(token, wall_ms)
        if step.principal is None:
            return step
        if self._principal not in {None, step.principal}:
            raise AuthenticationError(f"it was {self._principal}, and authenticates again as somebody else")
        self.stage, self._attempt, self._principal = Stage.COMPLETE, None, step.principal
        limits = [self._lifetimes_ms.get(self.mechanism, 0) or None, step.lifetime_ms]
        lifetime_ms = min((max(limit, 0) for limit in limits if limit is not None), default=None)
        return step._replace(lifetime_ms=lifetime_ms)
