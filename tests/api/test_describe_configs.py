"""DescribeConfigs: every key with its value, where that comes from, and what else would apply."""

import pytest
from tests.api.asking import create
from tests.api.harness import Client, Machine
from tests.api.test_alter_configs import BROKER, BROKER_LOGGER, GROUP, TOPIC, set_configs

from ottla.base.config import ConfigType, rows
from ottla.base.errors import ErrorCode
from ottla.broker.config_classes import broker_rows
from ottla.broker.config_entries import (
    DEFAULT_CONFIG,
    DYNAMIC_BROKER_CONFIG,
    DYNAMIC_DEFAULT_BROKER_CONFIG,
    DYNAMIC_GROUP_CONFIG,
    DYNAMIC_TOPIC_CONFIG,
    STATIC_BROKER_CONFIG,
)
from ottla.controller.keeper import Create
from ottla.controller.znodes import broker_config_path, config_node
from ottla.log.config import LogConfig
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResult,
)


def describe(
    client: Client, kind: int, name: str, *keys: str, documented: bool = True
) -> DescribeConfigsResult:
    asked = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) or None
    )
    request = DescribeConfigsRequest(
        resources=[asked], include_synonyms=documented, include_documentation=documented
    )
    (result,) = client.send(request).results
    assert (result.resource_type, result.resource_name) == (kind, name)
    found: DescribeConfigsResult = result
    return found


def entry(client: Client, kind: int, name: str, key: str) -> DescribeConfigsResourceResult:
    (found,) = describe(client, kind, name, key).configs
    return found


def chain(one: DescribeConfigsResourceResult) -> list[tuple[str, str | None, int]]:
    return [(synonym.name, synonym.value, synonym.source) for synonym in one.synonyms]


def test_a_topic_shows_every_key_a_topic_can_have() -> None:
    client = Machine().client()
    create(client, "t")
    configs = describe(client, TOPIC, "t").configs
    assert [one.name for one in configs] == sorted(row.topic for row in rows(LogConfig) if row.topic)
    assert not any(one.read_only or one.is_sensitive for one in configs)


def test_a_broker_shows_every_key_and_which_of_them_are_fixed() -> None:
    machine = Machine()
    configs = {one.name: one for one in describe(machine.client(), BROKER, "1").configs}
    assert set(configs) == {row.name for row in broker_rows()}
    assert configs["listeners"].read_only
    assert not configs["log.retention.ms"].read_only
    assert configs["log.dirs"].value == "/data"


def test_a_value_shows_the_whole_chain_it_comes_from() -> None:
    machine = Machine({"log.retention.hours": "2"})
    client = machine.client()
    create(client, "t")
    default = ("log.retention.ms", "604800000", DEFAULT_CONFIG)
    static = ("log.retention.hours", "7200000", STATIC_BROKER_CONFIG)
    assert chain(entry(client, TOPIC, "t", "retention.ms")) == [static, default]
    set_configs(client, BROKER, "", {"log.retention.ms": "3"})
    set_configs(client, BROKER, "1", {"log.retention.ms": "4"})
    set_configs(client, TOPIC, "t", {"retention.ms": "5"})
    one = entry(client, TOPIC, "t", "retention.ms")
    assert (one.value, one.config_source) == ("5", DYNAMIC_TOPIC_CONFIG)
    assert chain(one) == [
        ("retention.ms", "5", DYNAMIC_TOPIC_CONFIG),
        ("log.retention.ms", "4", DYNAMIC_BROKER_CONFIG),
        ("log.retention.ms", "3", DYNAMIC_DEFAULT_BROKER_CONFIG),
        static,
        default,
    ]
    one = entry(client, BROKER, "1", "log.retention.ms")
    assert (one.value, one.config_source, len(one.synonyms)) == ("4", DYNAMIC_BROKER_CONFIG, 4)


def test_types_and_documentation_are_given_on_request() -> None:
    client = Machine().client()
    create(client, "t")
    one = entry(client, TOPIC, "t", "retention.ms")
    assert (one.config_type, one.documentation) == (
        ConfigType.LONG,
        "Delete segments whose newest record is older; -1 keeps them.",
    )
    (bare,) = describe(client, TOPIC, "t", "cleanup.policy", documented=False).configs
    assert (bare.value, bare.synonyms, bare.documentation) == ("delete", [], None)
    assert bare.config_type == ConfigType.LIST


def test_only_the_keys_asked_for_come_and_an_empty_list_means_all() -> None:
    client = Machine().client()
    create(client, "t")
    found = describe(client, TOPIC, "t", "segment.ms", "no.such.key", "flush.ms").configs
    assert [one.name for one in found] == ["flush.ms", "segment.ms"]
    empty = DescribeConfigsResource(resource_type=TOPIC, resource_name="t", configuration_keys=[])
    answer = client.send(DescribeConfigsRequest(resources=[empty]))
    assert len(answer.results[0].configs) > 20


def test_the_default_of_all_brokers_shows_only_what_was_set() -> None:
    client = Machine().client()
    assert describe(client, BROKER, "").configs == []
    set_configs(client, BROKER, "", {"message.max.bytes": "5"})
    (one,) = describe(client, BROKER, "").configs
    assert (one.name, one.value, one.config_source) == (
        "message.max.bytes",
        "5",
        DYNAMIC_DEFAULT_BROKER_CONFIG,
    )


@pytest.mark.parametrize(
    ("broker", "source"), [("", DYNAMIC_DEFAULT_BROKER_CONFIG), ("1", DYNAMIC_BROKER_CONFIG)]
)
def test_the_value_of_a_key_that_nobody_knows_is_never_shown(broker: str, source: int) -> None:
    client = Machine().client()
    set_configs(client, BROKER, broker, {"my.plugin.password": "secret"})
    for described in {broker, "1"}:
        one = entry(client, BROKER, described, "my.plugin.password")
        assert (one.value, one.is_sensitive, one.config_source) == (None, True, source)
        assert (one.config_type, one.documentation) == (ConfigType.UNKNOWN, None)
        assert chain(one) == [("my.plugin.password", None, source)]


def test_a_password_is_never_shown_and_where_a_listener_has_its_certificates_is() -> None:
    location = "listener.name.internal.ssl.keystore.location"
    machine = Machine({"ssl.key.password": "hush", "ssl.keystore.location": "old.pem"})
    client = machine.client()
    set_configs(client, BROKER, "1", {location: "new.pem"})
    shown = {config.name: config for config in describe(client, BROKER, "1").configs}
    for name in ("ssl.key.password", "ssl.keystore.key", "sasl.jaas.config"):
        assert (shown[name].value, shown[name].is_sensitive) == (None, True)
        assert [synonym.value for synonym in shown[name].synonyms] == [None] * len(shown[name].synonyms)
    assert (shown["ssl.keystore.location"].value, shown[location].value) == ("old.pem", "new.pem")
    assert (shown[location].is_sensitive, shown[location].read_only) == (False, False)


def test_a_group_shows_the_keys_a_group_can_have_also_one_that_nobody_has_joined() -> None:
    client = Machine({"group.consumer.session.timeout.ms": "50000"}).client()
    configs = describe(client, GROUP, "g").configs
    assert [(one.name, one.value, one.config_source) for one in configs] == [
        ("consumer.heartbeat.interval.ms", "5000", DEFAULT_CONFIG),
        ("consumer.session.timeout.ms", "50000", DEFAULT_CONFIG),
    ]
    set_configs(client, GROUP, "g", {"consumer.session.timeout.ms": "55000"})
    one = entry(client, GROUP, "g", "consumer.session.timeout.ms")
    assert (one.value, one.config_source, one.config_type) == ("55000", DYNAMIC_GROUP_CONFIG, ConfigType.INT)
    assert chain(one)[1] == ("consumer.session.timeout.ms", "50000", DEFAULT_CONFIG)
    assert (one.read_only, one.is_sensitive) == (False, False)


def test_what_is_not_there_or_not_served_is_an_error() -> None:
    client = Machine().client()
    for kind, name, code in (
        (TOPIC, "nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "one", ErrorCode.INVALID_REQUEST),
        (BROKER_LOGGER, "", ErrorCode.INVALID_REQUEST),
        (BROKER_LOGGER, "2", ErrorCode.INVALID_REQUEST),
        (GROUP, "", ErrorCode.INVALID_REQUEST),
        (99, "", ErrorCode.INVALID_REQUEST),
    ):
        result = describe(client, kind, name)
        assert (result.error_code, result.configs) == (code, [])
        assert result.error_message


def test_a_password_in_the_node_of_all_brokers_is_shown_to_nobody() -> None:
    """It may have come there from Kafka, which has a place for it."""
    machine = Machine()
    machine.write(Create(broker_config_path(""), config_node({"ssl.keystore.password": "hush"})))
    (shown,) = describe(machine.client(), BROKER, "").configs
    assert (shown.name, shown.value, shown.is_sensitive) == ("ssl.keystore.password", None, True)
    assert [synonym.value for synonym in shown.synonyms] == [None]
