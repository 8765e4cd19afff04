"""Addresses: what is listened on, and what clients are told."""

import pytest

from ottla.broker.config import BrokerConfig
from ottla.shell.listener import Address, advertised_address, listen_address
from ottla.shell.lock import StartError


def test_listeners_for_controllers_are_passed_over_also_among_those_advertised() -> None:
    config = BrokerConfig(
        listeners="PLAINTEXT://:9092,CONTROLLER://:9093,Quorum://:9094",
        advertised_listeners="CONTROLLER://h:9093,PLAINTEXT://h:9092",
        controller_listener_names=("CONTROLLER", "quorum"),
    )
    assert listen_address(config) == Address("", 9092)
    assert advertised_address(config, Address("", 9092)) == Address("h", 9092)
    alone = BrokerConfig(advertised_listeners="C://h:9093", controller_listener_names=("C",))
    assert advertised_address(alone, Address("here", 1)) == Address("here", 1)


def test_a_listener_has_any_name_that_is_mapped_to_plaintext() -> None:
    config = BrokerConfig(
        listeners="external://:9092",
        advertised_listeners="INTERNAL://i:1,EXTERNAL://e:2",
        listener_protocols=("INTERNAL:PLAINTEXT", "EXTERNAL:PLAINTEXT"),
    )
    assert listen_address(config) == Address("", 9092)
    assert advertised_address(config, Address("", 9092)) == Address("e", 2)


@pytest.mark.parametrize("listeners", ["PLAINTEXT://a:1,PLAINTEXT://b:2", "a", "a:b", "a:99999"])
def test_what_cannot_be_listened_on_is_refused(listeners: str) -> None:
    with pytest.raises(StartError, match="listeners"):
        listen_address(BrokerConfig(listeners=listeners))
    with pytest.raises(StartError, match=r"advertised\.listeners"):
        advertised_address(BrokerConfig(advertised_listeners=listeners), Address("h", 1))


def test_a_name_without_a_protocol_is_refused_with_the_key_that_maps_it() -> None:
    with pytest.raises(StartError, match=r"no protocol is known for CONTROLLER; map it in listener\.sec"):
        listen_address(BrokerConfig(listeners="PLAINTEXT://:9092,CONTROLLER://:9093"))


def test_clients_are_told_what_is_advertised_or_else_where_we_listen() -> None:
    bound = Address("127.0.0.1", 7)
    assert advertised_address(BrokerConfig(), bound) == bound
    assert advertised_address(BrokerConfig(advertised_listeners="h:0"), bound) == Address("h", 7)
    assert advertised_address(BrokerConfig(advertised_listeners="[::1]:8"), bound) == Address("::1", 8)
    assert advertised_address(BrokerConfig(), Address("0.0.0.0", 7)).host != "0.0.0.0"
    with pytest.raises(StartError, match="wildcard"):
        advertised_address(BrokerConfig(advertised_listeners="0.0.0.0:1"), bound)
