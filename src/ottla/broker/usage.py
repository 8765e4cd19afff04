"""What clients use of their quotas, request by request, and how long they must be silent for it.

What is used is counted by whom a limit is for, not by connection: who comes back on another one has used as
much. The answer goes out first, and says for how long nothing more is read from the connection (KIP-219). A
consumer that has had too much gets an answer without records.

A client may invent client ids, so only so many are remembered, and none that was quiet for an hour.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ottla.base.config import INT_MAX
from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.config import BrokerConfig
from ottla.broker.long_work import Slices, Steps
from ottla.broker.parked import Key, Parked
from ottla.controller.image import Image
from ottla.controller.user_nodes import DEFAULT, Entity
from ottla.security.quotas import (
    CLIENT_QUOTAS,
    CONNECTIONS,
    IP_QUOTAS,
    MUTATIONS,
    Named,
    Rate,
    TokenBucket,
    Window,
    address_text,
    find_limit,
    quotas_in,
)

METERS_MAX: Final = 10_000
IDLE_MS: Final = 3_600_000
SWEEP_MS: Final = 60_000
PERCENT_PER_US: Final = 100 / 1_000_000  # of a second
STOPPED: Final = -1


class ClientMeters(NamedTuple):
    """What measures one client: None where it has no limit."""

    produce: Rate | None
    fetch: Rate | None
    request: Rate | None
    mutations: TokenBucket | None


@dataclass(slots=True, eq=False)
class Usage:
    """What one request uses, from its first byte to its answer. `throttle_ms`: for how long its client is
    silent then."""

    meters: ClientMeters
    elapsed_us: Callable[[], int]
    now_ms: int
    begun_us: int = STOPPED
    spent_us: int = 0
    throttle_ms: int = 0
    is_charged: bool = False
    _overdrawn_ms: int = 0
    _overdrawn_at_ms: int = 0

    # -- time that is spent on it --

    def start(self) -> None:
        if self.meters.request is not None:
            self.begun_us = self.elapsed_us()

    def stop(self) -> None:
        if self.begun_us != STOPPED:
            self.spent_us += self.elapsed_us() - self.begun_us
            self.begun_us = STOPPED

    def time_steps(self, steps: Steps, slices: Slices) -> Steps:
        """The same steps, whose time counts."""
        try:
            while True:
                self.now_ms = max(self.now_ms, slices.now_ms)
                self.start()
                try:
                    step = next(steps)
                finally:
                    self.stop()
                yield step
        except StopIteration as end:
            return end.value
        finally:
            steps.close()

    def time_wait(self, parked: Parked) -> None:
        """What is done when the answer is woken counts, the wait does not."""
        self.stop()
        ready, expire = parked.ready, parked.expire

        def timed_ready(key: Key, now_ms: int) -> Any | None:
            return self._timed(lambda: ready(key, now_ms), now_ms)

        parked.ready = timed_ready
        parked.expire = lambda now_ms: self._timed(lambda: expire(now_ms), now_ms)

    def _timed(self, work: Callable[[], Any], now_ms: int) -> Any:
        self.now_ms = now_ms
        self.start()
        try:
            return work()
        finally:
            self.stop()

    # -- what it costs --

    def charge(self, *, produced_bytes: int = 0, is_timed: bool = True) -> int:
        """Count the request, once: its client is silent for the longest of what it costs."""
        if self.is_charged:
            return self.throttle_ms
        self.is_charged = True
        produce, now_ms = self.meters.produce, self.now_ms
        if produce is not None and produced_bytes:
            produce.record(produced_bytes, now_ms)
            self.throttle_ms = produce.throttle_ms(now_ms)
        if is_timed:
            self.throttle_ms = max(self.throttle_ms, self._charge_time())
        overdrawn_ms = self._overdrawn_ms - (now_ms - self._overdrawn_at_ms)
        self.throttle_ms = max(self.throttle_ms, overdrawn_ms)
        return self.throttle_ms

    def charge_fetch(self, size: int, now_ms: int) -> bool:
        """Count the answer to a consumer. True: it is too much, and must not be given; then its bytes do not
        count. A batch that is more than a whole window is given to who has had nothing in that time, and is
        waited for afterwards: in Kafka its consumer would never get any further."""
        self.now_ms, fetch = now_ms, self.meters.fetch
        throttle_ms = self.charge()
        if fetch is None:
            return throttle_ms > 0
        fetch.record(size, now_ms)
        is_first = fetch.total == size
        self.throttle_ms = max(throttle_ms, fetch.throttle_ms(now_ms))
        if not self.throttle_ms or (is_first and not throttle_ms):
            return False
        fetch.record(-size, now_ms)
        return True

    @property
    def fetch_bytes_max(self) -> int:
        """More than this would be too much whatever was fetched before, and never be given."""
        fetch = self.meters.fetch
        if fetch is None:
            return INT_MAX
        samples, sample_ms = fetch.window
        return min(int(fetch.limit * (samples - 1) * sample_ms / 1_000), INT_MAX)

    def mutate(self, partitions: int, now_ms: int, *, is_strict: bool) -> None:
        """Count partitions that are made or deleted. ApiError: too many were, and this client understands
        it; others are made to wait later."""
        bucket = self.meters.mutations
        if bucket is None:
            return
        if is_strict and bucket.throttle_ms(now_ms):
            self._wait_for(bucket, now_ms)
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")
        bucket.record(partitions, now_ms)
        if not is_strict:
            self._wait_for(bucket, now_ms)

    def _wait_for(self, bucket: TokenBucket, now_ms: int) -> None:
        self._overdrawn_ms, self._overdrawn_at_ms = bucket.throttle_ms(now_ms), now_ms

    def finish(self) -> int:
        """For how long its client is silent. What was spent since it was charged counts for the next."""
        if self.meters.request is not None:
            self.stop()
            self.meters.request.record(self.spent_us * PERCENT_PER_US, self.now_ms)
            self.spent_us = 0
        return self.throttle_ms

    def _charge_time(self) -> int:
        """No longer than one sample at a time, as in Kafka: what is spent comes in small portions."""
        request = self.meters.request
        if request is None:
            return 0
        if self.begun_us != STOPPED:
            self.stop()
            self.start()
        request.record(self.spent_us * PERCENT_PER_US, self.now_ms)
        self.spent_us = 0
        return min(request.throttle_ms(self.now_ms), request.window.sample_ms)


class Meters:
    """Who has which limit, and what they have used of it."""

    def __init__(self, config: BrokerConfig, image: Image, slices: Slices) -> None:
        self.window = Window(config.quota_samples, config.quota_sample_s * 1_000)
        self._mutations_window = Window(config.mutation_samples, config.mutation_sample_s * 1_000)
        self._image = image
        self._slices = slices
        self._limits: dict[str, dict[Named, float]] = {name: {} for name in (*CLIENT_QUOTAS, *IP_QUOTAS)}
        self._clients: dict[tuple[str, str], ClientMeters | None] = {}
        self._meters: dict[tuple[str, str, str], Rate | TokenBucket] = {}
        self._swept_ms = 0

    def on_changed(self, entity: Entity) -> None:
        configs = self._image.entity_configs.get(entity)
        quotas = quotas_in(entity, configs.values) if configs is not None else {}
        if entity.ip:
            entity = Entity(ip=address_text(entity.ip) or entity.ip)
        for name, limits in self._limits.items():
            limits.pop(entity, None)
            if name in quotas:
                limits[entity] = quotas[name]
        self._clients = {}

    @property
    def limits_clients(self) -> bool:
        return any(self._limits[name] for name in CLIENT_QUOTAS)

    @property
    def limits_addresses(self) -> bool:
        return bool(self._limits[CONNECTIONS])

    def connections_of(self, address: str, now_ms: int) -> Rate | None:
        """What measures how fast connections come from an address, if there is a limit for it."""
        limits = self._limits[CONNECTIONS]
        limit = limits.get(Entity(ip=address), limits.get(Entity(ip=DEFAULT)))
        if limit is None:
            return None
        meter = self._meter_of((CONNECTIONS, address, ""), limit, now_ms)
        assert isinstance(meter, Rate), "only mutations have a bucket"
        return meter

    def usage(self, user: str, client_id: str, now_ms: int) -> Usage | None:
        """Of a request that has just come. None: there is nothing to count."""
        client = (user, client_id)
        if client not in self._clients:
            if len(self._clients) >= METERS_MAX:
                self._clients.clear()
            meters = self._client(user, client_id, now_ms)
            self._clients[client] = meters
        meters = self._clients[client]
        if meters is None:
            return None
        usage = Usage(meters, self._slices.elapsed_us, now_ms)
        usage.start()
        return usage

    def _client(self, user: str, client_id: str, now_ms: int) -> ClientMeters | None:
        meters: list[Any] = [self._meter(name, user, client_id, now_ms) for name in CLIENT_QUOTAS]
        return ClientMeters(*meters) if any(meters) else None

    def _meter(self, name: str, user: str, client_id: str, now_ms: int) -> Rate | TokenBucket | None:
        limit = find_limit(self._limits[name], user, client_id)
        if limit is None:
            return None
        return self._meter_of((name, limit.user, limit.client_id), limit.value, now_ms)

    def _meter_of(self, key: tuple[str, str, str], limit: float, now_ms: int) -> Rate | TokenBucket:
        meter = self._meters.get(key)
        if meter is None:
            if len(self._meters) >= METERS_MAX:
                self._forget_quietest()
            is_bucket = key[0] == MUTATIONS
            window = self._mutations_window if is_bucket else self.window
            meter = self._meters[key] = (TokenBucket if is_bucket else Rate)(window, limit, now_ms)
        meter.limit = limit
        return meter

    def on_tick(self, now_ms: int) -> None:
        if self._meters and now_ms - self._swept_ms >= SWEEP_MS:
            self._swept_ms = now_ms
            self._keep([key for key, meter in self._meters.items() if now_ms - meter.used_ms < IDLE_MS])

    def _forget_quietest(self) -> None:
        """Make room for a tenth as many."""
        by_use = sorted(self._meters, key=lambda key: self._meters[key].used_ms)
        self._keep(by_use[METERS_MAX // 10 :])

    def _keep(self, keys: list[tuple[str, str, str]]) -> None:
        if len(keys) < len(self._meters):
            self._meters = {key: self._meters[key] for key in keys}
            self._clients = {}
