"""Quotas: which limit holds for whom, and how what they use is measured, as in Kafka (KIP-55, KIP-599).

Of all limits that fit a client the first counts, in this order:

    user and client id · user and any client id · user
    any user and client id · any user and any client id · any user
    client id · any client id

A limit that does not name a client id is shared by all clients of the user, and one without a user by all
users with that client id. A client without an id has no limit that is for client ids.

A rate is measured over samples (quota.window.num) of a length (quota.window.size.seconds). Who is above it is
silent until the average is back at the limit.
"""

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from ottla.base.config import INT_MAX, LONG_MAX
from ottla.base.errors import ApiError, ErrorCode

PRODUCE = "producer_byte_rate"
FETCH = "consumer_byte_rate"
REQUEST = "request_percentage"
MUTATIONS = "controller_mutation_rate"
CONNECTIONS = "connection_creation_rate"
CLIENT_QUOTAS = (PRODUCE, FETCH, REQUEST, MUTATIONS)
IP_QUOTAS = (CONNECTIONS,)
_WHOLE = {PRODUCE: (LONG_MAX, "a LONG"), FETCH: (LONG_MAX, "a LONG"), CONNECTIONS: (INT_MAX, "an INT")}
_FRACTION_MAX = 1e-6

# User, client id and address. None: it is not about them; "": about all that have no quota of their own.
DEFAULT = ""
Named: TypeAlias = tuple[str | None, str | None, str | None]


# -- values ---------------------------------------------------------------------------------------


def check_quota(entity: Named, name: str, value: float) -> None:
    """ApiError: such a quota there cannot be."""
    if name not in (CLIENT_QUOTAS if entity[2] is None else IP_QUOTAS):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Invalid configuration key {name}")
    if not value > 0:  # not a number, either
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Quota {name} must be greater than 0")
    if name in _WHOLE:
        highest, kind = _WHOLE[name]
        if value > highest:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Proposed value for {name} is too large for {kind}.")
        if value % 1.0 > _FRACTION_MAX:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{name} cannot be a fractional value.")


def quota_text(name: str, value: float) -> str:
    """A value as it is stored."""
    return str(min(int(value), _WHOLE[name][0])) if name in _WHOLE else repr(float(value))


def quotas_in(entity: Named, values: Mapping[str, str]) -> dict[str, float]:
    """The quotas among what is stored for an entity. What is no number, or no limit, counts for nothing."""
    quotas = {}
    for name in CLIENT_QUOTAS if entity[2] is None else IP_QUOTAS:
        try:
            value = float(values[name])
        except (KeyError, ValueError):
            continue
        if value > 0:
            quotas[name] = value
    return quotas


def address_text(text: str) -> str | None:
    """An address as sockets write it; None: it is no address."""
    from ipaddress import IPv6Address, ip_address  # few name any

    try:
        address = ip_address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)


# -- who has which limit --------------------------------------------------------------------------


class Limit(NamedTuple):
    """`user` and `client_id` are those whose use is counted together; '' is all of them."""

    user: str
    client_id: str
    value: float


def find_limit(limits: Mapping[Named, float], user: str, client_id: str) -> Limit | None:
    """The limit of one kind that holds for a client."""
    for named_user, shared_user in ((user, user), (DEFAULT, user), (None, "")):
        for named_client in (client_id, DEFAULT) if client_id else ():
            value = limits.get((named_user, named_client, None))
            if value is not None:
                return Limit(shared_user, client_id, value)
        value = limits.get((named_user, None, None))
        if value is not None:
            return Limit(shared_user, "", value)
    return None


# -- how much is used -----------------------------------------------------------------------------


class Window(NamedTuple):
    """How many samples are kept, and how long each is."""

    samples: int = 11
    sample_ms: int = 1_000


@dataclass(slots=True)
class Sample:
    begun_ms: int
    amount: float = 0.0
    last_ms: int = 0


@dataclass(slots=True, eq=False)
class Rate:
    """An amount a second, over the samples that are not older than the window."""

    window: Window
    limit: float
    used_ms: int = 0
    samples: deque[Sample] = field(default_factory=deque)
    total: float = 0.0

    def record(self, amount: float, now_ms: int) -> None:
        samples = self.samples
        if not samples or now_ms - samples[-1].begun_ms >= self.window.sample_ms:
            self._expire(now_ms)
            samples.append(Sample(now_ms))
        samples[-1].amount += amount
        samples[-1].last_ms = self.used_ms = now_ms
        self.total += amount

    def throttle_ms(self, now_ms: int) -> int:
        """How long nothing may be added, so that the rate is at the limit again. 0: it is not above."""
        self._expire(now_ms)
        elapsed_ms, limit = self._elapsed_ms(now_ms), self.limit
        rate = self.total * 1_000 / elapsed_ms
        return min(round((rate - limit) / limit * elapsed_ms), INT_MAX) if rate > limit else 0

    def _elapsed_ms(self, now_ms: int) -> int:
        """All samples but one are taken to be complete, and the rest as far as it goes: the first bytes after
        a silence are no flood."""
        samples, sample_ms = self.window
        elapsed_ms = now_ms - self.samples[0].begun_ms if self.samples else 0
        missing = samples - 1 - elapsed_ms // sample_ms
        return max(elapsed_ms + max(missing, 0) * sample_ms, 1)

    def _expire(self, now_ms: int) -> None:
        samples, kept_ms = self.samples, self.window.samples * self.window.sample_ms
        while samples and now_ms - samples[0].last_ms >= kept_ms:
            self.total -= samples.popleft().amount
        if not samples:
            self.total = 0.0  # and not what floats have lost


@dataclass(slots=True, eq=False)
class TokenBucket:
    """So many tokens come in a second, and as many as a whole window brings can be saved. They may be
    overdrawn (KIP-599)."""

    window: Window
    limit: float
    used_ms: int = 0
    tokens: float = math.inf  # it begins full

    def record(self, amount: float, now_ms: int) -> None:
        self._fill(now_ms)
        self.tokens -= amount

    def throttle_ms(self, now_ms: int) -> int:
        """How long it takes until nothing is overdrawn."""
        self._fill(now_ms)
        return min(round(-self.tokens / self.limit * 1_000), INT_MAX) if self.tokens < 0 else 0

    def _fill(self, now_ms: int) -> None:
        most = self.window.samples * self.window.sample_ms / 1_000 * self.limit
        self.tokens = min(most, self.tokens + self.limit * (now_ms - self.used_ms) / 1_000)
        self.used_ms = now_ms
