"""Addresses: what is listened on, and what clients are told."""

import pytest

from ottla.broker.config import BrokerConfig
from ottla.shell.listener import Address, advertised_address, listen_address
from ottla.shell.lock import StartError


def test_a_listener_for_controllers_is_passed_over() -> None:
    config = BrokerConfig(listeners="PLAINTEXT://:9092,CONTROLLER://:9093")
    assert listen_address(config) == Address("", 9092)


@pytest.mark.parametrize(
    "listeners", ["PLAINTEXT://a:1,PLAINTEXT://b:2", "SSL://a:1", "a", "a:b", "a:99999", "CONTROLLER://:9093"]
)
def test_what_cannot_be_listened_on_is_refused(listeners: str) -> None:
    with pytest.raises(StartError, match="listeners"):
        listen_address(BrokerConfig(listeners=listeners))


def test_clients_are_told_what_is_advertised_or_else_where_we_listen() -> None:
    bound = Address("127.0.0.1", 7)
    assert advertised_address(BrokerConfig(), bound) == bound
    assert advertised_address(BrokerConfig(advertised_listeners="h:0"), bound) == Address("h", 7)
    assert advertised_address(BrokerConfig(advertised_listeners="[::1]:8"), bound) == Address("::1", 8)
    assert advertised_address(BrokerConfig(), Address("0.0.0.0", 7)).host != "0.0.0.0"
    with pytest.raises(StartError, match="wildcard"):
        advertised_address(BrokerConfig(advertised_listeners="0.0.0.0:1"), bound)
