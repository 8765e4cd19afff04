"""How fast connections may come: a line per listener, addresses with a quota. The clock is moved by hand."""

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Any

import pytest
from tests.api.harness import Machine
from tests.api.test_client_quotas import entry, set_quotas

from ottla.broker.listeners import Listener
from ottla.shell import arrivals
from ottla.shell.arrivals import ArrivalRates, Arrivals

TWO = {
    "listeners": "CLIENTS://:9092,BROKERS://:9093",
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
}


@dataclass(eq=False)
class Arrival:
    number: int
    peer: str
    listener: Listener
    is_held: bool = False
    served_ms: int | None = None
    refused: list[tuple[int, str]] = field(default_factory=list)
    now_ms: Callable[[], int] = lambda: 0

    def hold(self) -> None:
        self.is_held = True

    def go_on(self) -> None:
        self.is_held, self.served_ms = False, self.now_ms()

    def refuse(self, reason: str) -> None:
        self.refused.append((self.now_ms(), reason))


class Door:
    """Arrivals with a clock and timers of their own; the clock begins at 0."""

    def __init__(self, properties: dict[str, str]) -> None:
        self.machine = Machine(properties)
        broker, self.now_ms, self.timers = self.machine.broker, 0, list[Any]()
        self.uncounted: list[int] = []
        self.numbers = count()
        rates = ArrivalRates(broker.settings, broker.quotas, broker.listeners)
        self.arrivals = Arrivals(rates, lambda: self.now_ms, self.uncounted.append)

    def call_later(self, delay_s: float, what: Callable[..., None], *arguments: Any) -> None:
        heappush(self.timers, (self.now_ms + round(delay_s * 1_000), next(self.numbers), what, arguments))

    def come(self, peer: str = "10.0.0.1", listener: str = "CLIENTS") -> Arrival:
        arrival = Arrival(
            next(self.numbers), peer, Listener(listener, "PLAINTEXT", "", 0), now_ms=lambda: self.now_ms
        )
        refusal = self.arrivals.come(arrival)
        if refusal is not None:
            arrival.refuse(refusal)
        elif not arrival.is_held:
            arrival.served_ms = self.now_ms
        return arrival

    def pass_time(self, ms: int) -> None:
        end_ms = self.now_ms + ms
        while self.timers and self.timers[0][0] <= end_ms:
            self.now_ms, _, what, arguments = heappop(self.timers)
            what(*arguments)
        self.now_ms = end_ms


@pytest.fixture
def door_with(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Door]:
    def made(**settings: str) -> Door:
        door = Door({**TWO, **{key.replace("_", "."): value for key, value in settings.items()}})
        monkeypatch.setattr(arrivals.asyncio, "get_running_loop", lambda: door)
        return door

    return made


def test_those_over_the_rate_wait_and_come_in_at_the_rate(door_with: Callable[..., Door]) -> None:
    door = door_with(max_connection_creation_rate="10")
    flood = [door.come() for _ in range(400)]
    assert sum(arrival.served_ms == 0 for arrival in flood) == 100, "what a window of ten seconds has saved"
    assert all(arrival.is_held for arrival in flood[100:])
    door.pass_time(60_000)
    served_ms = [arrival.served_ms for arrival in flood]
    assert None not in served_ms
    assert served_ms == sorted(served_ms, key=lambda ms: ms or 0), "in the order in which they came"
    assert max(ms or 0 for ms in served_ms) == pytest.approx(30_000, rel=0.4)


def test_a_listener_has_a_rate_of_its_own_and_that_of_brokers_no_other(
    door_with: Callable[..., Door],
) -> None:
    door = door_with(
        **{"max.connection.creation.rate": "1", "listener.name.brokers.max.connection.creation.rate": "5"}
    )
    assert sum(door.come().served_ms == 0 for _ in range(20)) == 10
    assert sum(door.come(listener="BROKERS").served_ms == 0 for _ in range(70)) == 50


def test_a_rate_that_is_raised_holds_for_those_who_wait(door_with: Callable[..., Door]) -> None:
    door = door_with(max_connection_creation_rate="1")
    flood = [door.come() for _ in range(40)]
    door.machine.broker.settings.properties["max.connection.creation.rate"] = "1000"
    door.machine.broker.settings.load()
    door.pass_time(1_000)
    assert all(arrival.served_ms is not None for arrival in flood)


def test_more_than_can_wait_are_refused(
    door_with: Callable[..., Door], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrivals, "LINE_MAX", 5)
    door = door_with(max_connection_creation_rate="1")
    flood = [door.come() for _ in range(20)]
    assert sum(arrival.is_held for arrival in flood) == 5
    refused = [arrival for arrival in flood if arrival.refused]
    assert len(refused) == 5
    assert "max.connection.creation.rate" in refused[0].refused[0][1]


def test_an_address_over_its_quota_is_closed_after_a_while_and_counts_nowhere(
    door_with: Callable[..., Door],
) -> None:
    door = door_with(max_connection_creation_rate="3")
    set_quotas(door.machine.client(), entry({"connection_creation_rate": 1.0}, ip="10.0.0.1"))
    flood = [door.come() for _ in range(30)]
    served = [arrival for arrival in flood if arrival.served_ms == 0]
    assert len(served) == 10
    assert len(door.uncounted) == 20
    assert not any(arrival.refused for arrival in flood), "who is refused at once is back at once"
    others = [door.come("10.0.0.2") for _ in range(20)]
    assert all(arrival.served_ms == 0 for arrival in others), "the listener's rate is not used up"
    door.pass_time(1_000)
    refused = [arrival for arrival in flood if arrival.refused]
    assert len(refused) == 20
    ((refused_ms, reason),) = refused[0].refused
    assert 0 < refused_ms <= 1_000
    assert "connection_creation_rate" in reason
    door.pass_time(11_000)
    assert door.come().served_ms is not None


def test_addresses_without_a_quota_have_the_default_ones(door_with: Callable[..., Door]) -> None:
    door = door_with()
    client = door.machine.client()
    set_quotas(client, entry({"connection_creation_rate": 1.0}, ip=None))
    set_quotas(client, entry({"connection_creation_rate": 2.0}, ip="10.0.0.2"))
    assert sum(door.come("10.0.0.1").served_ms == 0 for _ in range(30)) == 10
    assert sum(door.come("::ffff:10.0.0.2").served_ms == 0 for _ in range(30)) == 20


def test_so_many_are_about_to_be_closed_and_no_more(
    door_with: Callable[..., Door], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrivals, "SENT_AWAY_MAX", 5)
    door = door_with()
    set_quotas(door.machine.client(), entry({"connection_creation_rate": 1.0}, ip=None))
    flood = [door.come() for _ in range(30)]
    door.pass_time(0)
    assert sum(bool(arrival.refused) for arrival in flood) == 15


def test_an_address_that_is_too_fast_is_not_worth_a_handshake_and_asking_counts_for_nothing(
    door_with: Callable[..., Door],
) -> None:
    door = door_with()
    set_quotas(door.machine.client(), entry({"connection_creation_rate": 1.0}, ip="10.0.0.1"))
    for _ in range(100):
        assert not door.arrivals.is_too_fast("10.0.0.1")
    while door.come().served_ms is not None:
        pass
    assert door.arrivals.is_too_fast("10.0.0.1")
    assert not door.arrivals.is_too_fast("10.0.0.2")
