"""Settings of a broker: which one wins, and which mean nothing."""

import pytest

from ottla.base.command_error import CommandError
from ottla.cli.properties import lay_over, parse_settings, without_effect


def test_the_upper_layer_wins() -> None:
    assert lay_over({"a": "1", "b": "1"}, {"b": "2"}) == {"a": "1", "b": "2"}


def test_the_upper_layer_wins_also_under_another_name_of_the_same_setting() -> None:
    assert lay_over({"broker.id": "3"}, {"node.id": "5"}) == {"node.id": "5"}
    assert lay_over({"log.retention.ms": "1"}, {"log.retention.hours": "2"}) == {"log.retention.hours": "2"}


def test_keys_of_all_parts_of_a_broker_are_known() -> None:
    for known in ("log.retention.hours", "offsets.retention.minutes", "group.max.size"):
        assert list(without_effect({known: "1"})) == []
    (sentence,) = without_effect({"log.retention.hous": "1"})
    assert "log.retention.hours" in sentence


def test_settings_without_an_equals_sign_are_refused() -> None:
    assert parse_settings(["a=b=c", "d="], "--set") == {"a": "b=c", "d": ""}
    with pytest.raises(CommandError, match="--set takes KEY=VALUE, not 'a'"):
        parse_settings(["a"], "--set")
