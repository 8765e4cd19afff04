"""Settings that ask for security, which is not there: they are refused, never passed over."""

import random

import pytest
from tests.api.harness import Disk

from ottla.base.config import ConfigError
from ottla.broker.broker import Broker
from ottla.broker.security import asks_for_security, check_security
from ottla.security.principals import Principal

MAP = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ssl.keystore.location", "/etc/kafka/keys.jks"),
        ("ssl.client.auth", "required"),
        ("sasl.enabled.mechanisms", "PLAIN"),
        ("sasl.jaas.config", "..."),
        ("listener.name.internal.ssl.keystore.location", "keys.jks"),
        ("listener.name.internal.plain.sasl.jaas.config", "..."),
        ("listener.name.internal.scram-sha-256.sasl.jaas.config", "..."),
        ("listener.name.internal.sasl.enabled.mechanisms", "PLAIN"),
        ("listener.name.internal.principal.builder.class", "com.example.Builder"),
        ("listener.name.internal.connections.max.reauth.ms", "3600000"),
        ("security.inter.broker.protocol", "SSL"),
        ("principal.builder.class", "com.example.Builder"),
        ("delegation.token.secret.key", "s"),
        ("password.encoder.secret", "s"),
        ("security.providers", "com.example.Provider"),
        ("zookeeper.set.acl", "true"),
        ("zookeeper.ssl.client.enable", "true"),
    ],
)
def test_a_setting_that_asks_for_security_is_refused_by_name_and_without_its_value(
    name: str, value: str
) -> None:
    assert asks_for_security(name, value)
    with pytest.raises(ConfigError) as refused:
        check_security({name: value, "num.partitions": "3"})
    assert str(refused.value).startswith(f"{name}: TLS, SASL and access control are not there yet")
    assert "\n" not in str(refused.value)
    assert value == "s" or value not in str(refused.value).removeprefix(name)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("authorizer.class.name", ""),
        ("super.users", " "),
        ("ssl.client.auth", "none"),
        ("ssl.endpoint.identification.algorithm", ""),
        ("zookeeper.set.acl", "false"),
        ("zookeeper.ssl.client.enable", "False"),
        ("connections.max.reauth.ms", "0"),
        ("allow.everyone.if.no.acl.found", "true"),
        ("security.inter.broker.protocol", "PLAINTEXT"),
        ("listener.security.protocol.map", MAP),
        ("inter.broker.listener.name", "PLAINTEXT"),
        ("delegation.token.expiry.time.ms", "1000"),
        ("listener.name.internal.max.connections", "9"),
        ("num.partitions", "3"),
    ],
)
def test_a_setting_at_its_harmless_value_asks_for_nothing(name: str, value: str) -> None:
    assert not asks_for_security(name, value)
    check_security({name: value})


@pytest.mark.parametrize("key", ["listeners", "advertised.listeners"])
@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_a_listener_with_security_is_refused_under_whatever_name(protocol: str, key: str) -> None:
    for properties in (
        {key: f"{protocol}://h:9092"},
        {key: f"PLAINTEXT://h:9092,{protocol.lower()}://h:9093"},
        {key: "OUTSIDE://h:9092", "listener.security.protocol.map": f"OUTSIDE:{protocol}"},
        {key: "PLAINTEXT://h:9092", "listener.security.protocol.map": f"PLAINTEXT:{protocol}"},
    ):
        with pytest.raises(ConfigError, match=f"{key}: TLS, SASL"):
            check_security(properties)


def test_a_listener_for_controllers_asks_for_nothing() -> None:
    check_security(
        {
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:SSL,PLAINTEXT:PLAINTEXT",
        }
    )


def test_all_that_asks_is_named_in_one_line() -> None:
    with pytest.raises(ConfigError, match=r"^principal\.builder\.class, ssl\.key\.password, listeners: "):
        check_security({"principal.builder.class": "a.B", "ssl.key.password": "p", "listeners": "SSL://:1"})


@pytest.mark.parametrize(
    "authorizer",
    ["org.apache.kafka.metadata.authorizer.StandardAuthorizer", "kafka.security.authorizer.AclAuthorizer"],
)
def test_either_of_kafkas_authorizers_is_ours(authorizer: str) -> None:
    properties = {"authorizer.class.name": authorizer, "super.users": "User:a;User:CN=b,OU=c"}
    check_security({**properties, "allow.everyone.if.no.acl.found": "false"})
    broker = Broker(Disk(), random.Random(0), {**properties, "log.dirs": "d"})
    assert broker.access.authorizer is not None
    assert broker.access.authorizer.is_super_user(Principal("User", "CN=b,OU=c"))


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        (
            {"authorizer.class.name": "com.example.Authorizer"},
            r"^authorizer\.class\.name: must be one of , org",
        ),
        (
            {"authorizer.class.name": "kafka.security.auth.SimpleAclAuthorizer"},
            r"^authorizer\.class\.name: must",
        ),
        ({"super.users": "User:a;admin"}, r"^super\.users: must be principals with semicolons"),
        (
            {"super.users": "User:admin"},
            r"^super\.users, .*: nobody would heed them.*; set authorizer\.class",
        ),
        ({"allow.everyone.if.no.acl.found": "false"}, r"nobody would heed them"),
    ],
)
def test_settings_of_an_authorizer_that_would_not_hold_end_the_start(
    properties: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        check_security(properties)
