"""Addresses: what clients and other brokers are told."""

import pytest

from ottla.base.addresses import Address
from ottla.broker.listeners import listeners_of
from ottla.shell import endpoints
from ottla.shell.endpoints import advertised_endpoints


def told(properties: dict[str, str], **ports: int) -> dict[str, Address]:
    return advertised_endpoints(listeners_of(properties), ports)


def test_clients_are_told_what_is_advertised_or_else_where_we_listen() -> None:
    here = {"listeners": "127.0.0.1:0"}
    assert told(here, PLAINTEXT=7) == {"PLAINTEXT": Address("127.0.0.1", 7)}
    for advertised, address in (
        ("h:0", Address("h", 7)), ("[::1]:8", Address("::1", 8)), ("kafka:9092", Address("kafka", 9092)),
    ):  # fmt: skip
        assert told(here | {"advertised.listeners": advertised}, PLAINTEXT=7) == {"PLAINTEXT": address}
    for_controllers = {"advertised.listeners": "C://h:9093", "controller.listener.names": "C"}
    assert told(here | for_controllers, PLAINTEXT=7) == {"PLAINTEXT": Address("127.0.0.1", 7)}


def test_each_listener_is_told_with_its_own_address_and_only_those_that_are_advertised() -> None:
    properties = {
        "listeners": "IN://127.0.0.1:0,OUT://127.0.0.1:0",
        "listener.security.protocol.map": "IN:PLAINTEXT,OUT:PLAINTEXT",
        "inter.broker.listener.name": "IN",
    }
    here = {"IN": Address("127.0.0.1", 1), "OUT": Address("127.0.0.1", 2)}
    assert told(properties, IN=1, OUT=2) == here
    advertised = {"advertised.listeners": "IN://i:0"}
    assert told(properties | advertised, IN=1, OUT=2) == {"IN": Address("i", 1)}


@pytest.mark.parametrize("host", ["", "0.0.0.0", "[::]"])
def test_a_wildcard_is_advertised_as_this_machines_name(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints.socket, "gethostname", lambda: "my-machine")
    monkeypatch.setattr(endpoints.socket, "getaddrinfo", lambda *_: [])
    anywhere = {"listeners": f"{host}:0"}
    assert told(anywhere, PLAINTEXT=1) == {"PLAINTEXT": Address("my-machine", 1)}

    def unknown(*_: object) -> None:
        raise OSError

    monkeypatch.setattr(endpoints.socket, "getaddrinfo", unknown)
    assert told(anywhere, PLAINTEXT=1) == {"PLAINTEXT": Address("127.0.0.1", 1)}


def test_addresses_are_written_as_clients_take_them() -> None:
    assert (str(Address("h", 1)), str(Address("::1", 1))) == ("h:1", "[::1]:1")
