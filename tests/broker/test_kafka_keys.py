"""Kafka's keys that have no effect here, and keys that are nobody's."""

from ottla.broker.config_classes import broker_names
from ottla.broker.kafka_keys import WITHOUT_EFFECT, remarks
from ottla.broker.security import is_security_key

KNOWN = broker_names()


def test_a_key_is_declared_once() -> None:
    assert KNOWN.isdisjoint(WITHOUT_EFFECT)
    assert [name for name in KNOWN | WITHOUT_EFFECT if is_security_key(name)] == []


def test_kafkas_keys_are_named_in_one_sentence_without_a_guess() -> None:
    properties = {
        "num.partitions": "3",
        "num.network.threads": "3",
        "zookeeper.connection.timeout.ms": "18000",
        "share.coordinator.state.topic.min.isr": "1",
        "ssl.client.auth": "none",
        "ssl.provider": "SunJSSE",
        "listener.name.internal.num.network.threads": "9",
    }
    (sentence,) = remarks(properties, KNOWN)
    assert sentence == (
        "these keys of Kafka have no effect here: listener.name.internal.num.network.threads, "
        "num.network.threads, share.coordinator.state.topic.min.isr, ssl.provider, "
        "zookeeper.connection.timeout.ms"
    )


def test_a_key_that_is_nobodys_is_answered_with_the_nearest_names() -> None:
    (sentence,) = remarks({"log.retention.hous": "1"}, KNOWN)
    assert sentence.startswith(
        "the config key 'log.retention.hous' is not known and is ignored; did you mean "
    )
    assert "log.retention.hours" in sentence
    (sentence,) = remarks({"zzz": "1"}, KNOWN)
    assert "did you mean" not in sentence


def test_keys_that_have_an_effect_are_not_spoken_of() -> None:
    assert list(remarks({"log.retention.hours": "1", "controller.listener.names": "C"}, KNOWN)) == []


def test_a_listeners_own_limits_on_connections_have_an_effect() -> None:
    properties = {
        "listener.name.internal.max.connections": "5",
        "listener.name.INTERNAL.max.connection.creation.rate": "5",
    }
    assert list(remarks(properties, broker_names())) == []


def test_a_setting_of_a_listener_that_is_not_there_has_no_effect() -> None:
    properties = {
        "listeners": "CLIENTS://:9092,CONTROLLER://:9093",
        "controller.listener.names": "CONTROLLER",
        "listener.name.clients.ssl.client.auth": "required",
        "listener.name.controller.ssl.client.auth": "required",
        "listener.name.cleints.ssl.client.auth": "required",
    }
    (sentence,) = remarks(properties, broker_names())
    assert sentence == (
        "listener.name.cleints.ssl.client.auth has no effect: CLEINTS is none of the listeners "
        "CLIENTS, CONTROLLER"
    )
