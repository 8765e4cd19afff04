"""Properties as operators write them: KEY=VALUE arguments, config files, and what overrides what.

All that a broker can be set to is loaded late: most commands never ask.
"""

from collections.abc import Iterable, Iterator, Mapping

from ottla.base.command_error import USAGE, CommandError


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
    from ottla.base.config import names_of
    from ottla.broker.config_classes import broker_rows

    return {name: set(names_of(row)) for row in broker_rows() if row.synonyms for name in names_of(row)}


def without_effect(properties: Mapping[str, str]) -> Iterator[str]:
    """A sentence for keys that mean nothing here."""
    from ottla.broker.config_classes import broker_names
    from ottla.broker.kafka_keys import remarks

    return remarks(properties, broker_names())
