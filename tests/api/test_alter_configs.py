"""AlterConfigs replaces a resource's configs, IncrementalAlterConfigs changes single keys of them."""

import logging
from collections.abc import Mapping

import pytest
from tests.api.asking import batch, create, produce, to
from tests.api.harness import NOW, Client, Machine
from tests.api.test_fetch import log_of
from tests.support.transactions import FakeVerifier, markers, transactional

from ottla.base.config import ConfigError
from ottla.base.errors import ErrorCode
from ottla.broker.effects import SyncLog, WriteNodes
from ottla.records.control import Marker
from ottla.wire.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig as IncrementalConfig,
)
from ottla.wire.messages.incremental_alter_configs import (
    AlterConfigsResource as IncrementalResource,
)
from ottla.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
)

TOPIC, BROKER, BROKER_LOGGER, GROUP = 2, 4, 8, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


def alteration(
    *resources: tuple[int, str, dict[str, str | None]], validate_only: bool = False
) -> AlterConfigsRequest:
    return AlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[AlterableConfig(name=key, value=value) for key, value in configs.items()],
            )
            for kind, name, configs in resources
        ],
        validate_only=validate_only,
    )


def incremental(
    kind: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False
) -> IncrementalAlterConfigsRequest:
    configs = [IncrementalConfig(name=key, config_operation=op, value=value) for key, op, value in changes]
    resource = IncrementalResource(resource_type=kind, resource_name=name, configs=configs)
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)


def change(
    client: Client, kind: int, name: str, *changes: tuple[str, int, str | None], validate_only: bool = False
) -> int:
    (result,) = client.send(incremental(kind, name, *changes, validate_only=validate_only)).responses
    assert (result.resource_type, result.resource_name) == (kind, name)
    assert bool(result.error_message) == bool(result.error_code)
    error: int = result.error_code
    return error


def set_configs(client: Client, kind: int, name: str, configs: dict[str, str]) -> None:
    assert (
        change(client, kind, name, *((key, SET, value) for key, value in configs.items())) == ErrorCode.NONE
    )


@pytest.fixture
def machine() -> Machine:
    machine = Machine()
    create(machine.client(), "t", retention_ms="1000", segment_bytes="1024")
    return machine


def configs(machine: Machine) -> dict[str, str]:
    return machine.broker.image.topic_config("t")


# AlterConfigs


def test_what_is_not_named_goes_back_to_its_default(machine: Machine) -> None:
    (result,) = machine.client().send(alteration((TOPIC, "t", {"retention.ms": "5"}))).responses
    assert (result.error_code, result.resource_type, result.resource_name) == (ErrorCode.NONE, TOPIC, "t")
    assert configs(machine) == {"retention.ms": "5"}
    assert log_of(machine).config.segment_bytes == 1 << 30


@pytest.mark.parametrize(
    ("kind", "name", "values", "code"),
    [
        (TOPIC, "nowhere", {}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "t", {"no.such.key": "1"}, ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", {"retention.ms": "x"}, ErrorCode.INVALID_CONFIG),
        (TOPIC, "t", {"retention.ms": None}, ErrorCode.INVALID_REQUEST),
        (BROKER, "2", {}, ErrorCode.INVALID_REQUEST),
        (BROKER, "", {"log.retention.hours": "1"}, ErrorCode.INVALID_REQUEST),
        (BROKER, "", {"log.dirs": "/elsewhere"}, ErrorCode.INVALID_REQUEST),
        (BROKER, "1", {"log.retention.ms": "x"}, ErrorCode.INVALID_REQUEST),
        (BROKER, "1", {"log.segment.bytes": "0"}, ErrorCode.INVALID_REQUEST),
        (GROUP, "", {}, ErrorCode.INVALID_REQUEST),
        (GROUP, "g", {"no.such.key": "1"}, ErrorCode.INVALID_CONFIG),
        (GROUP, "g", {"share.session.timeout.ms": "45000"}, ErrorCode.INVALID_CONFIG),
        (GROUP, "g", {"consumer.session.timeout.ms": "44999"}, ErrorCode.INVALID_CONFIG),
        (GROUP, "g", {"consumer.session.timeout.ms": "60001"}, ErrorCode.INVALID_CONFIG),
        (GROUP, "g", {"consumer.heartbeat.interval.ms": "x"}, ErrorCode.INVALID_CONFIG),
        (BROKER_LOGGER, "1", {}, ErrorCode.INVALID_REQUEST),
        (16, "metrics", {}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_altered_changes_nothing(
    machine: Machine, kind: int, name: str, values: dict[str, str | None], code: ErrorCode
) -> None:
    before = dict(machine.keeper.nodes)
    (result,) = machine.client().send(alteration((kind, name, values))).responses
    assert result.error_code == code
    assert result.error_message
    assert machine.keeper.nodes == before


def test_a_key_or_a_resource_given_twice_is_refused(machine: Machine) -> None:
    client = machine.client()
    request = alteration((TOPIC, "t", {"retention.ms": "5"}))
    request.resources[0].configs *= 2
    assert client.send(request).responses[0].error_code == ErrorCode.INVALID_REQUEST
    request = alteration((TOPIC, "t", {"retention.ms": "5"}), (BROKER, "", {}), (TOPIC, "t", {}))
    codes = [one.error_code for one in client.send(request).responses]
    assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    assert configs(machine) == {"retention.ms": "1000", "segment.bytes": "1024"}


def test_validate_only_changes_nothing(machine: Machine) -> None:
    client = machine.client()
    request = alteration((TOPIC, "t", {"retention.ms": "5"}), (TOPIC, "u", {}), validate_only=True)
    codes = [one.error_code for one in client.send(request).responses]
    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert configs(machine)["retention.ms"] == "1000"


def test_a_change_that_changes_nothing_is_not_written(machine: Machine) -> None:
    before = dict(machine.keeper.nodes)
    same = alteration((TOPIC, "t", {"segment.bytes": "1024", "retention.ms": "1000"}))
    assert machine.client().send(same).responses[0].error_code == ErrorCode.NONE
    assert machine.keeper.nodes == before


# IncrementalAlterConfigs


def test_single_keys_are_set_and_deleted(machine: Machine) -> None:
    client = machine.client()
    assert (
        change(client, TOPIC, "t", ("retention.ms", DELETE, None), ("flush.ms", SET, "7")) == ErrorCode.NONE
    )
    assert configs(machine) == {"segment.bytes": "1024", "flush.ms": "7"}
    assert change(client, TOPIC, "t", ("retention.ms", DELETE, None)) == ErrorCode.NONE


def test_lists_are_appended_to_and_subtracted_from(machine: Machine) -> None:
    client = machine.client()
    assert change(client, TOPIC, "t", ("cleanup.policy", APPEND, "compact,delete")) == ErrorCode.NONE
    assert configs(machine)["cleanup.policy"] == "delete,compact"
    assert change(client, TOPIC, "t", ("cleanup.policy", SUBTRACT, "delete")) == ErrorCode.NONE
    assert configs(machine)["cleanup.policy"] == "compact"
    assert change(client, TOPIC, "t", ("cleanup.policy", SUBTRACT, "compact")) == ErrorCode.NONE
    assert log_of(machine).config.cleanup_policy == ()
    assert configs(machine)["cleanup.policy"] == ""
    assert change(client, BROKER, "1", ("log.cleanup.policy", APPEND, "compact")) == ErrorCode.NONE
    assert machine.broker.settings.log_config.cleanup_policy == ("delete", "compact")


@pytest.mark.parametrize(
    ("key", "operation", "value", "code"),
    [
        ("retention.ms", APPEND, "1", ErrorCode.INVALID_CONFIG),
        ("retention.ms", SUBTRACT, "1", ErrorCode.INVALID_CONFIG),
        ("no.such.key", APPEND, "1", ErrorCode.INVALID_CONFIG),
        ("no.such.key", SET, "1", ErrorCode.INVALID_CONFIG),
        ("retention.ms", SET, "-2", ErrorCode.INVALID_CONFIG),
        ("retention.ms", SET, None, ErrorCode.INVALID_REQUEST),
        ("cleanup.policy", APPEND, None, ErrorCode.INVALID_REQUEST),
        ("cleanup.policy", 4, "compact", ErrorCode.INVALID_REQUEST),
        ("retention.ms", 4, "1", ErrorCode.INVALID_REQUEST),
        ("retention.ms", -1, "1", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_makes_no_sense_is_refused(
    machine: Machine, key: str, operation: int, value: str | None, code: ErrorCode
) -> None:
    before = dict(machine.keeper.nodes)
    assert change(machine.client(), TOPIC, "t", (key, operation, value)) == code
    assert machine.keeper.nodes == before


def test_a_brokers_fixed_keys_are_refused(machine: Machine) -> None:
    client = machine.client()
    assert change(client, BROKER, "1", ("broker.id", SET, "2")) == ErrorCode.INVALID_REQUEST
    assert change(client, BROKER, "1", ("listeners", APPEND, "x")) == ErrorCode.INVALID_CONFIG
    assert change(client, BROKER, "1", ("no.such.key", APPEND, "2")) == ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize("broker", ["", "1"])
def test_a_brokers_unknown_keys_are_kept_for_whoever_knows_them(machine: Machine, broker: str) -> None:
    client = machine.client()
    set_configs(client, BROKER, broker, {"my.plugin.password": "secret"})
    machine.restart()
    assert machine.broker.image.broker_config(broker) == {"my.plugin.password": "secret"}
    assert change(machine.client(), BROKER, broker, ("my.plugin.password", DELETE, None)) == ErrorCode.NONE
    assert machine.broker.image.broker_config(broker) == {}


def test_a_topic_without_a_cleanup_policy_keeps_everything(machine: Machine) -> None:
    client = machine.client()
    set_configs(client, TOPIC, "t", {"cleanup.policy": "", "retention.ms": "1"})
    for _ in range(20):
        assert produce(client, "t", batch("x" * 100, key=None)).error_code == ErrorCode.NONE
    assert len(log_of(machine).segments) > 1
    machine.pass_time(10**9)
    assert log_of(machine).log_start_offset == 0
    set_configs(client, TOPIC, "t", {"cleanup.policy": "delete"})
    machine.pass_time(10**9)
    assert log_of(machine).log_start_offset == 20


@pytest.mark.parametrize("broker", ["", "1"])
def test_a_config_that_asks_for_security_is_refused_rather_than_kept_without_effect(
    machine: Machine, broker: str
) -> None:
    client = machine.client()
    for name, value in (
        ("ssl.engine.factory.class", "com.example.Factory"),
        ("listener.name.internal.sasl.server.callback.handler.class", "com.example.Handler"),
    ):
        (result,) = client.send(incremental(BROKER, broker, (name, SET, value))).responses
        assert result.error_code == ErrorCode.INVALID_CONFIG
        assert result.error_message.startswith(f"{name}: this kind of security is not there")
        (result,) = client.send(alteration((BROKER, broker, {name: value}))).responses
        assert result.error_code == ErrorCode.INVALID_CONFIG
    assert machine.broker.image.broker_config(broker) == {}


LISTENERS_KEY = "listener.name.internal.ssl.keystore.location"


def test_a_listeners_certificates_can_be_changed_for_one_broker_by_files_and_never_by_secrets(
    machine: Machine,
) -> None:
    client = machine.client()
    for broker, name, said in (
        ("1", "ssl.keystore.location", "for one listener alone: listener.name.X.ssl.keystore.location"),
        ("", LISTENERS_KEY, "one broker's"),
        ("1", "listener.name.internal.ssl.keystore.password", "cannot be changed while the broker runs"),
        ("1", "listener.name.internal.ssl.keystore.key", "cannot be changed while the broker runs"),
        ("1", "listener.name.internal.ssl.client.auth", "cannot be changed while the broker runs"),
    ):
        (result,) = client.send(incremental(BROKER, broker, (name, SET, "hush"))).responses
        assert (result.error_code, said in result.error_message) == (ErrorCode.INVALID_REQUEST, True)
        assert "hush" not in result.error_message
    assert change(client, BROKER, "1", (LISTENERS_KEY, SET, "new.pem")) == ErrorCode.NONE
    assert machine.broker.image.broker_config("1") == {LISTENERS_KEY: "new.pem"}


def test_a_listeners_certificates_that_cannot_be_read_are_refused(machine: Machine) -> None:
    def check(configs: Mapping[str, str]) -> None:
        raise ConfigError(f"listener INTERNAL: cannot read {configs[LISTENERS_KEY]}")

    machine.broker.settings.check_tls = check
    request = incremental(BROKER, "1", (LISTENERS_KEY, SET, "new.pem"))
    (result,) = machine.client().send(request).responses
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert result.error_message == "listener INTERNAL: cannot read new.pem"
    assert machine.broker.image.broker_config("1") == {}


def test_an_incremental_key_or_resource_given_twice_is_refused(machine: Machine) -> None:
    client = machine.client()
    twice = ("retention.ms", SET, "5")
    assert change(client, TOPIC, "t", twice, twice) == ErrorCode.INVALID_REQUEST
    request = incremental(TOPIC, "t", twice)
    request.resources *= 2
    codes = [one.error_code for one in client.send(request).responses]
    assert codes == [ErrorCode.INVALID_REQUEST] * 2
    assert configs(machine)["retention.ms"] == "1000"


def test_an_incremental_change_can_be_tried(machine: Machine) -> None:
    client = machine.client()
    assert change(client, TOPIC, "t", ("flush.ms", SET, "7"), validate_only=True) == ErrorCode.NONE
    assert change(client, TOPIC, "t", ("flush.ms", SET, "x"), validate_only=True) == ErrorCode.INVALID_CONFIG
    assert "flush.ms" not in configs(machine)


def test_of_two_who_race_both_changes_are_there_in_the_end(machine: Machine) -> None:
    machine.hold(WriteNodes)
    pending = [
        machine.client().ask(incremental(TOPIC, "t", ("flush.ms", SET, "7"))),
        machine.client().ask(incremental(TOPIC, "t", ("retention.ms", DELETE, None))),
    ]
    machine.release()
    assert [one.answer.responses[0].error_code for one in pending] == [ErrorCode.NONE] * 2
    assert configs(machine) == {"flush.ms": "7", "segment.bytes": "1024"}


def test_the_first_config_of_a_topic_is_raced_for_too() -> None:
    machine = Machine()
    create(machine.client(), "t")
    machine.hold(WriteNodes)
    for key in ("flush.ms", "segment.ms"):
        machine.client().ask(incremental(TOPIC, "t", (key, SET, "7")))
    machine.release()
    assert configs(machine) == {"flush.ms": "7", "segment.ms": "7"}


@pytest.mark.parametrize("deleted_first", [True, False])
def test_a_config_that_races_with_the_deletion_of_its_topic_leaves_nothing_behind(
    deleted_first: bool,
) -> None:
    machine = Machine()
    create(machine.client(), "t")
    machine.hold(WriteNodes)
    ask = [
        lambda: machine.client().ask(DeleteTopicsRequest(topic_names=["t"], timeout_ms=100), 5),
        lambda: machine.client().ask(incremental(TOPIC, "t", ("flush.ms", SET, "7"))),
    ]
    pending = [one() for one in (ask if deleted_first else reversed(ask))]
    machine.release()
    codes = {one.answer.responses[0].error_code for one in pending}
    assert codes == (
        {ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION} if deleted_first else {ErrorCode.NONE}
    )
    assert "/config/topics/t" not in machine.keeper.nodes
    create(machine.client(), "t", retention_ms="5")
    assert configs(machine) == {"retention.ms": "5"}


def test_a_keeper_that_does_not_answer_is_a_timeout(machine: Machine) -> None:
    machine.hold(WriteNodes)
    pending = machine.client().ask(incremental(TOPIC, "t", ("flush.ms", SET, "7")))
    legacy = machine.client().ask(alteration((TOPIC, "t", {})))
    machine.pass_time(30_000)
    assert pending.answer.responses[0].error_code == ErrorCode.REQUEST_TIMED_OUT
    assert legacy.answer.responses[0].error_code == ErrorCode.REQUEST_TIMED_OUT


# What a change does


def test_a_topics_config_takes_effect_at_once(machine: Machine) -> None:
    client = machine.client()
    set_configs(client, TOPIC, "t", {"max.message.bytes": "10"})
    assert produce(client, "t").error_code == ErrorCode.MESSAGE_TOO_LARGE
    set_configs(client, TOPIC, "t", {"max.message.bytes": "1000"})
    assert produce(client, "t").error_code == ErrorCode.NONE


@pytest.mark.parametrize("broker", ["", "1"])
def test_a_brokers_config_takes_effect_at_once_on_the_logs_that_are_there(
    machine: Machine, broker: str
) -> None:
    client = machine.client()
    set_configs(client, BROKER, broker, {"message.max.bytes": "10", "log.segment.bytes": "5000"})
    assert produce(client, "t").error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert log_of(machine).config.segment_bytes == 1024, "the topic's own comes first"
    assert change(client, BROKER, broker, ("message.max.bytes", DELETE, None)) == ErrorCode.NONE
    assert produce(client, "t").error_code == ErrorCode.NONE


def test_this_brokers_own_config_comes_before_that_of_all(machine: Machine) -> None:
    client = machine.client()
    set_configs(client, BROKER, "1", {"log.retention.ms": "11"})
    set_configs(client, BROKER, "", {"log.retention.ms": "22", "log.flush.interval.ms": "33"})
    config = machine.broker.settings.log_config
    assert (config.retention_ms, config.flush_ms) == (11, 33)


@pytest.mark.parametrize("broker", ["", "1"])
def test_the_verification_of_transactions_is_switched_off_and_on(machine: Machine, broker: str) -> None:
    client = machine.client()
    machine.broker.verifier = verifier = FakeVerifier()
    for sequence, (is_enabled, asked) in enumerate((("false", 0), ("true", 1))):
        set_configs(client, BROKER, broker, {"transaction.partition.verification.enable": is_enabled})
        request = to("t", transactional(sequence))
        request.transactional_id = "x"
        (answer,) = client.send(request, version=11).responses[0].partition_responses
        assert (answer.error_code, len(verifier.questions)) == (ErrorCode.NONE, asked)
        client.send(markers(Marker(7, 0, False, 0, 0), "t", 0))


def test_the_stores_intervals_can_be_changed_and_are_kept(machine: Machine) -> None:
    client = machine.client()
    set_configs(client, BROKER, "", {"log.retention.check.interval.ms": "50"})
    assert machine.broker.store.store_config.retention_check_interval_ms == 50
    machine.restart()
    produce(machine.client(), "t", batch(at=NOW - 5_000))
    machine.pass_time(50)
    assert log_of(machine).log_start_offset == 1, "retention has looked, and found it too old"


def test_a_dynamic_broker_config_holds_for_existing_logs_after_a_restart(machine: Machine) -> None:
    set_configs(machine.client(), BROKER, "", {"message.max.bytes": "10"})
    machine.restart()
    assert produce(machine.client(), "t").error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_flush_messages_may_be_set_while_somebody_writes(machine: Machine) -> None:
    client = machine.client()
    set_configs(client, TOPIC, "t", {"flush.messages": "1"})
    machine.hold(SyncLog)
    pending = client.ask(to("t", batch("a")), 12)
    assert pending.answer is None
    set_configs(machine.client(), TOPIC, "t", {"flush.messages": "1000"})
    machine.release()
    assert pending.answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize("prefix", ["listener.name.ssl.", "Listener.Name.ssl.", "LISTENER.NAME.SSL."])
@pytest.mark.parametrize(
    "key",
    ["ssl.client.auth", "ssl.principal.mapping.rules", "sasl.enabled.mechanisms", "plain.sasl.jaas.config"],
)
def test_who_may_alter_configs_does_not_choose_who_is_let_in_however_the_key_is_written(
    machine: Machine, prefix: str, key: str
) -> None:
    assert change(machine.client(), BROKER, "1", (prefix + key, SET, "none")) == ErrorCode.INVALID_REQUEST


def test_which_settings_were_changed_is_in_the_log_and_no_value(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    client = machine.client()
    create(client, "t")
    client.send(alteration((TOPIC, "t", {"retention.ms": "77777", "segment.bytes": "55555"})))
    with caplog.at_level(logging.INFO, "ottla.api"):
        change(client, TOPIC, "t", ("retention.ms", SET, "77777"))
        assert caplog.messages == [], "it is what it was"
        change(client, TOPIC, "t", ("retention.ms", SET, "66666"), validate_only=True)
        change(client, TOPIC, "t", ("retention.ms", SET, "many"))
        change(client, TOPIC, "nowhere", ("retention.ms", SET, "1"))
        assert caplog.messages == [], "nothing was changed"
        change(client, TOPIC, "t", ("retention.ms", SET, "66666"), ("segment.bytes", DELETE, None))
        change(client, BROKER, "", ("log.retention.ms", SET, "66666"))
    assert caplog.messages == [
        "settings of topic t are changed by client 'a client': retention.ms, segment.bytes",
        "settings of all brokers are changed by client 'a client': log.retention.ms",
    ]
    named = vars(caplog.records[0])["fields"]
    assert {name: value for name, value in named.items() if value is not None} == {
        "settings": "retention.ms, segment.bytes", "client": "a client", "topic": "t",
    }  # fmt: skip
    assert "66666" not in caplog.text


def test_changes_of_many_topics_are_a_few_lines(caplog: pytest.LogCaptureFixture) -> None:
    machine = Machine()
    client = machine.client()
    names = [f"t{number}" for number in range(30)]
    for name in names:
        create(client, name)
    with caplog.at_level(logging.INFO, "ottla.api"):
        client.send(alteration(*((TOPIC, name, {"retention.ms": "1"}) for name in names)))
    assert len(caplog.messages) == 11
    assert caplog.messages[-1] == "settings of 20 more are changed by client 'a client'"
