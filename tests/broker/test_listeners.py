"""Listeners as an operator writes them: what is bound, what others are told, and where brokers meet."""

import pytest

from ottla.base.config import ConfigError
from ottla.broker.listeners import Listener, listeners_of, settings_of

TWO = {
    "listeners": "INTERNAL://:9092,external://0.0.0.0:9093",
    "listener.security.protocol.map": "INTERNAL:PLAINTEXT,EXTERNAL:SASL_SSL",
    "inter.broker.listener.name": "internal",
}


def refusal(**properties: str) -> str:
    with pytest.raises(ConfigError) as refused:
        listeners_of({name.replace("_", "."): value for name, value in properties.items()})
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("localhost:9092", "localhost", 9092),
        ("PLAINTEXT://127.0.0.1:0", "127.0.0.1", 0),
        ("plaintext://host:65535", "host", 65535),
        (" :9092 ", "", 9092),
        ("PLAINTEXT://[::1]:9092", "::1", 9092),
        ("[fe80::1]:1", "fe80::1", 1),
    ],
)
def test_an_address_is_read(text: str, host: str, port: int) -> None:
    assert listeners_of({"listeners": text}).bound == (Listener("PLAINTEXT", "PLAINTEXT", host, port),)


def test_without_a_word_there_is_one_listener_in_plain_text_on_this_machine_cve_2026_82266() -> None:
    listeners = listeners_of({})
    assert listeners.bound == (Listener("PLAINTEXT", "PLAINTEXT", "127.0.0.1", 9092),)
    assert (listeners.inter_broker, listeners.between_brokers) == ("PLAINTEXT", listeners.bound[0])


@pytest.mark.parametrize(
    "text", ["host", "host:", "host:port", "host:65536", "::1:9092", "a/b:1", "PLAINTEXT:9092:1", "a:99999"]
)
def test_what_is_no_address_is_refused_with_its_key(text: str) -> None:
    assert refusal(listeners=text).startswith(f"listeners: {text!r} is not HOST:PORT")
    assert refusal(advertised_listeners=text).startswith(f"advertised.listeners: {text!r} is not HOST:PORT")


def test_several_listeners_have_names_in_upper_case_and_the_protocols_they_are_mapped_to() -> None:
    listeners = listeners_of(TWO)
    assert listeners.bound == (
        Listener("INTERNAL", "PLAINTEXT", "", 9092),
        Listener("EXTERNAL", "SASL_SSL", "0.0.0.0", 9093),
    )
    assert [(listener.has_sasl, listener.has_tls) for listener in listeners.bound] == [
        (False, False),
        (True, True),
    ]
    assert listeners.inter_broker == "INTERNAL"


def test_there_must_be_a_listener_for_clients() -> None:
    for listeners in ("", "A://a:1"):
        properties = {"listeners": listeners, "controller.listener.names": "A"}
        with pytest.raises(ConfigError, match="listeners: there is no listener for clients"):
            listeners_of(properties)


def test_listeners_for_controllers_are_passed_over_also_among_those_advertised() -> None:
    listeners = listeners_of(
        {
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093,Quorum://:9094",
            "advertised.listeners": "CONTROLLER://h:9093,PLAINTEXT://h:9092",
            "controller.listener.names": "CONTROLLER,quorum",
        }
    )
    assert [listener.name for listener in listeners.bound] == ["PLAINTEXT"]
    assert listeners.advertised == (Listener("PLAINTEXT", "PLAINTEXT", "h", 9092),)


def test_a_name_without_a_protocol_is_refused_with_the_key_that_maps_it() -> None:
    said = refusal(listeners="PLAINTEXT://:9092,CONTROLLER://:9093")
    assert "no protocol is known for CONTROLLER; map it in listener.security.protocol.map" in said


@pytest.mark.parametrize("listeners", ["PLAINTEXT://a:1,plaintext://b:2", "a:1,b:2"])
def test_two_listeners_need_two_names(listeners: str) -> None:
    assert "PLAINTEXT is there 2 times" in refusal(listeners=listeners)
    assert "PLAINTEXT is there 2 times" in refusal(advertised_listeners=listeners)


@pytest.mark.parametrize(
    ("first", "second", "is_fine"),
    [
        ("127.0.0.1:9092", "[::1]:9092", True),
        ("0.0.0.0:9092", "[::]:9092", True),
        ("127.0.0.1:9092", "10.0.0.1:9092", False),
        ("a:9092", "b:9092", False),
        (":9092", "[::1]:9092", False),
        ("a:0", "b:0", True),
    ],
)
def test_two_listeners_need_two_ports_unless_one_is_ipv4_and_the_other_ipv6(
    first: str, second: str, is_fine: bool
) -> None:
    properties = TWO | {"listeners": f"INTERNAL://{first},EXTERNAL://{second}"}
    if is_fine:
        assert len(listeners_of(properties).bound) == 2
    else:
        with pytest.raises(ConfigError, match="listeners: 2 listeners have port 9092"):
            listeners_of(properties)


def test_advertised_listeners_may_share_a_port_and_may_be_fewer() -> None:
    shared = listeners_of(TWO | {"advertised.listeners": "INTERNAL://i:1,EXTERNAL://e:1"})
    assert [listener.host for listener in shared.advertised] == ["i", "e"]
    assert listeners_of(TWO | {"advertised.listeners": "INTERNAL://i:1"}).names == ["INTERNAL"]


def test_only_listeners_are_advertised() -> None:
    with pytest.raises(ConfigError, match=r"advertised\.listeners: PLAINTEXT is not one of listeners, which"):
        listeners_of(TWO | {"advertised.listeners": "PLAINTEXT://h:1"})


@pytest.mark.parametrize("host", ["0.0.0.0", "", "[::]"])
def test_a_wildcard_is_not_advertised(host: str) -> None:
    assert "not a wildcard" in refusal(advertised_listeners=f"{host}:9092")


def test_the_listener_of_brokers_is_named_by_one_key_and_is_advertised() -> None:
    both = TWO | {"security.inter.broker.protocol": "PLAINTEXT"}
    with pytest.raises(ConfigError, match=r"it and security\.inter\.broker\.protocol say the same thing"):
        listeners_of(both)
    with pytest.raises(ConfigError, match=r"inter\.broker\.listener\.name: .*over OTHER; .*: INTERNAL, EXTE"):
        listeners_of(TWO | {"inter.broker.listener.name": "OTHER"})
    with pytest.raises(ConfigError, match=r"inter\.broker\.listener\.name: .*over EXTERNAL;"):
        listeners_of(
            TWO | {"inter.broker.listener.name": "EXTERNAL", "advertised.listeners": "INTERNAL://i:1"}
        )
    unnamed = {name: value for name, value in TWO.items() if name != "inter.broker.listener.name"}
    with pytest.raises(ConfigError, match=r"inter\.broker\.listener\.name: .*over PLAINTEXT;"):
        listeners_of(unnamed)
    with pytest.raises(ConfigError, match=r"security\.inter\.broker\.protocol: .*over SASL_SSL;"):
        listeners_of(unnamed | {"security.inter.broker.protocol": "SASL_SSL"})


def test_the_listener_of_brokers_is_called_like_their_protocol_or_is_the_only_one() -> None:
    two = {"listeners": "PLAINTEXT://:1,SSL://:2"}
    assert listeners_of(two).inter_broker == "PLAINTEXT"
    assert listeners_of(two | {"security.inter.broker.protocol": "ssl"}).inter_broker == "SSL"
    alone = {"listeners": "OUTSIDE://:1", "listener.security.protocol.map": "OUTSIDE:PLAINTEXT"}
    assert listeners_of(alone).inter_broker == "OUTSIDE"


def test_a_listeners_own_setting_goes_before_the_one_of_all() -> None:
    properties = {"ssl.client.auth": "none", "listener.name.outside.ssl.client.auth": "required"}
    assert settings_of(properties, "OUTSIDE")["ssl.client.auth"] == "required"
    assert settings_of(properties, "INSIDE")["ssl.client.auth"] == "none"
