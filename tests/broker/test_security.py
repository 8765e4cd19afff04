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
        ("ssl.engine.factory.class", "com.example.Factory"),
        ("sasl.server.callback.handler.class", "com.example.Handler"),
        ("sasl.kerberos.service.name", "kafka"),
        ("listener.name.internal.ssl.engine.factory.class", "com.example.Factory"),
        ("listener.name.internal.plain.sasl.server.callback.handler.class", "com.example.Handler"),
        ("listener.name.internal.scram-sha-256.sasl.login.class", "com.example.Login"),
        ("listener.name.internal.sasl.login.callback.handler.class", "com.example.Handler"),
        ("listener.name.internal.principal.builder.class", "com.example.Builder"),
        ("principal.builder.class", "com.example.Builder"),
        ("delegation.token.secret.key", "s"),
        ("password.encoder.secret", "s"),
        ("security.providers", "com.example.Provider"),
        ("zookeeper.ssl.crl.enable", "true"),
        ("zookeeper.ssl.ocsp.enable", "true"),
    ],
)
def test_a_setting_that_asks_for_security_is_refused_by_name_and_without_its_value(
    name: str, value: str
) -> None:
    assert asks_for_security(name, value)
    with pytest.raises(ConfigError) as refused:
        check_security({name: value, "num.partitions": "3"})
    assert str(refused.value).startswith(f"{name}: this kind of security is not there")
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
        ("zookeeper.ssl.client.enable", "true"),
        ("zookeeper.ssl.keystore.location", "/etc/ottla/zookeeper.pem"),
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


def test_tls_is_there_and_what_it_takes_is_looked_at_by_who_reads_files() -> None:
    check_security({"listeners": "SSL://h:9092", "ssl.client.auth": "required", "ssl.key.password": "p"})


def test_a_listener_for_controllers_asks_for_nothing() -> None:
    check_security(
        {
            "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:SSL,PLAINTEXT:PLAINTEXT",
        }
    )


def test_all_that_asks_is_named_in_one_line() -> None:
    with pytest.raises(ConfigError, match=r"^principal\.builder\.class, delegation\.token\.secret\.key: "):
        check_security(
            {"principal.builder.class": "a", "delegation.token.secret.key": "p", "listeners": "SSL://:1"}
        )


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


JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="hunter2";'
SECURE = {
    "listeners": "SECURE://h:9092",
    "listener.security.protocol.map": "SECURE:SASL_PLAINTEXT",
    "listener.name.secure.plain.sasl.jaas.config": JAAS,
}


@pytest.mark.parametrize(
    "properties",
    [
        {"sasl.enabled.mechanisms": "PLAIN"},
        {
            "sasl.enabled.mechanisms": "GSSAPI",
            "listener.name.secure.sasl.enabled.mechanisms": "SCRAM-SHA-256",
        },
        {"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512", "sasl.mechanism.inter.broker.protocol": "PLAIN"},
        {"sasl.enabled.mechanisms": "PLAIN", "connections.max.reauth.ms": "1000"},
    ],
)
def test_a_listener_with_mechanisms_that_are_there_is_served(properties: dict[str, str]) -> None:
    check_security({**SECURE, **properties})


@pytest.mark.parametrize(
    ("properties", "line"),
    [
        (
            {},
            r"sasl\.enabled\.mechanisms: SECURE has GSSAPI, which is meant when nothing is said, and it is",
        ),
        ({"sasl.enabled.mechanisms": "PLAIN,GSSAPI"}, "SECURE has GSSAPI, and it is not there; set sasl"),
        (
            {"sasl.enabled.mechanisms": "GSSAPI", "sasl.mechanism.inter.broker.protocol": "PLAIN"},
            "SECURE has GSSAPI, and it is not there; set sasl",
        ),
        ({"sasl.enabled.mechanisms": "DIGEST-MD5"}, "SECURE has 'DIGEST-MD5', which is not there; set sasl"),
        ({"sasl.enabled.mechanisms": ""}, "SECURE has SASL and no mechanism"),
        (
            {"sasl.enabled.mechanisms": "PLAIN", "listener.name.secure.plain.sasl.jaas.config": ""},
            r"listener\.name\.secure\.plain\.sasl\.jaas\.config: PLAIN needs its users; set it to: org",
        ),
        (
            {"sasl.enabled.mechanisms": "PLAIN", "listener.name.secure.plain.sasl.jaas.config": JAAS[:-1]},
            r"listener\.name\.secure\.plain\.sasl\.jaas\.config: it does not end with a semicolon",
        ),
        (
            {
                "sasl.enabled.mechanisms": "SCRAM-SHA-256",
                "listener.name.secure.scram-sha-256.sasl.jaas.config": JAAS,
            },
            "SCRAM-SHA-256 needs org.apache.kafka.common.security.scram.ScramLoginModule",
        ),
        (
            {"sasl.enabled.mechanisms": "SCRAM-SHA-256", "sasl.mechanism.inter.broker.protocol": "PLAIN"},
            r"sasl\.mechanism\.inter\.broker\.protocol: 'PLAIN' is not among the mechanisms of SECURE",
        ),
        (
            {"sasl.enabled.mechanisms": "PLAIN", "sasl.jaas.config": JAAS},
            "sasl.jaas.config: a JAAS line is one",
        ),
        (
            {"sasl.enabled.mechanisms": "PLAIN", "listener.name.secure.sasl.jaas.config": JAAS},
            r"listener\.name\.secure\.sasl\.jaas\.config: a JAAS line is one mechanism's; set it as",
        ),
    ],
)
def test_a_listener_that_cannot_be_served_ends_the_start_with_a_line_and_no_password(
    properties: dict[str, str], line: str
) -> None:
    with pytest.raises(ConfigError, match=line) as refused:
        check_security({**SECURE, **properties})
    assert "\n" not in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_a_security_key_that_is_misspelled_is_answered_with_the_one_that_was_meant() -> None:
    with pytest.raises(ConfigError, match=r"did you mean sasl\.enabled\.mechanisms\?"):
        check_security({"sasl.enabled.mechansims": "PLAIN"})
    with pytest.raises(ConfigError) as refused:
        check_security({"delegation.token.secret.key": "s"})
    assert "did you mean" not in str(refused.value)


def test_super_users_with_commas_between_them_are_refused() -> None:
    settings = {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}
    check_security({**settings, "super.users": "User:CN=admin,O=Example;User:backup"})
    with pytest.raises(ConfigError, match="must be principals with semicolons between them"):
        check_security({**settings, "super.users": "User:admin, User:backup"})
