"""Broker properties as operators write them: KEY=VALUE arguments, config files, and what overrides what."""

from collections.abc import Iterable, Iterator, Mapping

from ottla.base.command_error import USAGE, CommandError
from ottla.base.config import known_names, rows
from ottla.broker.config import BrokerConfig
from ottla.broker.kafka_keys import remarks
from ottla.group.config import GroupConfig
from ottla.log.config import LogConfig, StoreConfig

CONFIGS = (BrokerConfig, LogConfig, StoreConfig, GroupConfig)


def parse_settings(settings: Iterable[str], option: str) -> dict[str, str]:
    """KEY=VALUE arguments as a dict."""
    properties = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name.strip():
            raise CommandError(f"{option} takes KEY=VALUE, not {setting!r}", USAGE)
        properties[name.strip()] = value
    return properties


def lay_over(lower: Mapping[str, str], upper: Mapping[str, str]) -> dict[str, str]:
    """Both, with `upper` winning, also where the two write one setting under different names or units."""
    hidden = {other for name in upper for other in _same_setting().get(name, ())}
    return {name: value for name, value in lower.items() if name not in hidden} | dict(upper)


def _same_setting() -> dict[str, set[str]]:
    groups = [{row.name, *(name for name, _ in row.synonyms)} for cls in CONFIGS for row in rows(cls)]
    return {name: group for group in groups if len(group) > 1 for name in group}


def without_effect(properties: Mapping[str, str]) -> Iterator[str]:
    """A sentence for keys that mean nothing here."""
    return remarks(properties, known_names(*CONFIGS))
