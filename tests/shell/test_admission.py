"""Who may connect, and what is kept for brokers and for the machine itself."""

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from tests.api.harness import Machine

from ottla.broker.listeners import Listener, listeners_of
from ottla.broker.settings import Settings
from ottla.controller import znodes
from ottla.controller.image import Image
from ottla.controller.keeper import Create
from ottla.shell.admission import GUESTS_MAX, LOCALS_MAX, SPARE_MAX, Admission, is_local

USUAL = Listener("PLAINTEXT", "PLAINTEXT", "", 0)


@dataclass
class Visitor:
    number: int
    peer: str = "10.0.0.9"
    is_local: bool = False
    active_ms: int = 0
    guest_because: str = ""
    listener: Listener = USUAL
    refused: list[str] = field(default_factory=list)

    def refuse(self, reason: str) -> None:
        self.refused.append(reason)


class Door:
    """An admission with its broker; each visitor comes a moment after the last."""

    def __init__(self, *, has_peers: bool = True, **settings: str) -> None:
        self.machine = Machine()
        if has_peers:
            self.machine.write(Create(znodes.PEER_SECRET, znodes.peer_secret_node(bytes(32))))
        properties = {key.replace("_", "."): value for key, value in settings.items()}
        self.hosts: dict[str, Callable[[list[str]], None]] = {}  # that are being looked up
        self.admission = Admission(
            Settings(properties, Image()), self.machine.broker.identities, listeners_of(properties),
            self.hosts.__setitem__,
        )  # fmt: skip
        self.count = 0

    def come(self, peer: str = "10.0.0.9", *, is_local: bool = False, listener: str = "PLAINTEXT") -> Visitor:
        self.count += 1
        visitor = Visitor(
            self.count, peer, is_local, active_ms=self.count, listener=Listener(listener, "PLAINTEXT", "", 0)
        )
        refusal = self.admission.admit(visitor)
        if refusal is not None:
            visitor.refuse(refusal)
        return visitor


@pytest.mark.parametrize("key", ["max_connections", "max_connections_per_ip"])
def test_over_a_limit_strangers_are_refused_where_there_are_no_other_brokers(key: str) -> None:
    door = Door(has_peers=False, **{key: "2"})
    first = door.come()
    assert [door.come().refused for _ in range(3)][:1] == [[]]
    (reason,) = door.come().refused
    assert key.replace("_", ".") in reason
    door.admission.forget(first.number)
    assert door.come().refused == []
    assert len(door.come().refused) == 1


def test_a_limit_for_one_address_leaves_others_alone() -> None:
    door = Door(has_peers=False, max_connections_per_ip="1")
    assert door.come("10.0.0.1").refused == door.come("10.0.0.2").refused == []
    assert door.come("10.0.0.1").refused


def test_the_machine_itself_always_comes_in() -> None:
    door = Door(has_peers=False, max_connections="1")
    door.come()
    own = [door.come("127.0.0.1", is_local=True) for _ in range(LOCALS_MAX)]
    own[0].active_ms = 1_000  # it is at work
    latest = door.come("127.0.0.1", is_local=True)
    assert latest.refused == own[0].refused == []
    (reason,) = own[1].refused
    assert "max.connections" in reason
    assert not any(visitor.refused for visitor in own[2:])


def test_over_a_limit_a_stranger_is_a_guest_who_may_be_a_broker() -> None:
    door = Door(max_connections="1")
    assert door.come().guest_because == ""
    guests = [door.come(f"10.0.1.{number}") for number in range(GUESTS_MAX)]
    assert all("max.connections" in guest.guest_because and not guest.refused for guest in guests)
    assert door.come().refused == []
    assert [guest.number for guest in guests if guest.refused] == [guests[0].number]


def test_who_proved_to_be_a_broker_counts_for_no_limit() -> None:
    door = Door(max_connections="2", max_connections_per_ip="2")
    identities = door.machine.broker.identities
    for _ in range(3 * GUESTS_MAX):
        identities.admit(door.come().number, 7)
    assert door.come().guest_because == door.come().guest_because == ""
    assert door.come().guest_because


def test_guests_do_not_take_the_place_of_the_machine_itself_nor_the_other_way_round() -> None:
    door = Door(max_connections="1")
    door.come()
    own, guest = door.come("::1", is_local=True), door.come()
    for _ in range(GUESTS_MAX - 1):
        door.come()
    for _ in range(LOCALS_MAX - 1):
        door.come("::1", is_local=True)
    assert own.refused == guest.refused == []


def test_what_is_kept_comes_out_of_the_files_that_connections_may_have() -> None:
    door = Door(has_peers=False)
    door.admission.descriptors_max = SPARE_MAX + 3
    refused = [visitor for visitor in (door.come() for _ in range(5)) if visitor.refused]
    assert len(refused) == 2
    assert "ulimit -n" in refused[0].refused[0]


@pytest.mark.parametrize(
    ("peer", "own", "expected"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.3.2.1", "127.0.0.1", True),
        ("::1", "::1", True),
        ("::ffff:127.0.0.1", "::ffff:127.0.0.1", True),
        ("10.0.0.5", "10.0.0.5", True),
        ("10.0.0.6", "10.0.0.5", False),
        ("12.7.0.1", "10.0.0.5", False),
        ("", "10.0.0.5", False),
    ],
)
def test_the_machine_itself_is_known_by_its_addresses(peer: str, own: str, expected: bool) -> None:
    assert is_local(peer, own) is expected


# -- other limits for some --


def test_an_address_may_have_a_limit_of_its_own() -> None:
    overrides = {"max_connections_per_ip_overrides": "10.0.0.1:3, [fe80::1]:0,10.0.0.2:1"}
    door = Door(has_peers=False, max_connections_per_ip="2", **overrides)
    assert [bool(door.come("10.0.0.1").refused) for _ in range(4)] == [False, False, False, True]
    assert [bool(door.come("::ffff:10.0.0.2").refused) for _ in range(2)] == [False, True]
    assert [bool(door.come("10.0.0.3").refused) for _ in range(3)] == [False, False, True]
    (reason,) = door.come("fe80::1").refused
    assert "max.connections.per.ip.overrides" in reason


def test_a_host_that_is_limited_by_name_is_limited_once_it_is_looked_up() -> None:
    door = Door(has_peers=False, max_connections_per_ip_overrides="build-server:0")
    assert door.come("10.0.0.7").refused == []
    door.hosts["build-server"](["10.0.0.7", "fe80::7"])
    assert door.come("10.0.0.7").refused
    assert door.come("fe80::7").refused
    assert door.come("10.0.0.8").refused == []


TWO = {
    "listeners": "CLIENTS://:9092,BROKERS://:9093",
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
}


def test_a_listener_may_have_a_limit_of_its_own() -> None:
    door = Door(has_peers=False, **TWO, **{"listener.name.clients.max.connections": "1"})
    assert door.come(listener="CLIENTS").refused == []
    (reason,) = door.come(listener="CLIENTS").refused
    assert "listener CLIENTS has 1 connections" in reason
    assert [door.come(listener="BROKERS").refused for _ in range(3)] == [[]] * 3


def test_the_listener_that_is_only_for_brokers_counts_for_no_limit_but_its_own() -> None:
    door = Door(has_peers=False, max_connections="2", **TWO, **{"listener.name.brokers.max.connections": "4"})
    assert [bool(door.come(listener="CLIENTS").refused) for _ in range(3)] == [False, False, True]
    assert [bool(door.come(listener="BROKERS").refused) for _ in range(5)] == [False] * 4 + [True]
