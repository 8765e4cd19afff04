"""What a SASL mechanism is to a broker."""

from typing import NamedTuple, Protocol

from ottla.security.principals import Principal


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
    """`nonce` are 32 random bytes, used for nothing else."""

    def begin(self, nonce: bytes) -> MechanismExchange: ...
