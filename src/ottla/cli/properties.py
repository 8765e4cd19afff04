"""Properties as operators write them: KEY=VALUE arguments, config files, and what overrides what.

All that a broker can be set to is loaded late: most commands never ask.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from ottla.base.command_error import USAGE, CommandError
from ottla.base.times import parse_duration_ms

_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
# What the last word of a key says that it is measured in, in milliseconds.
_MEASURED_MS = {"ms": 1, "seconds": 1_000, "minutes": 60_000, "hours": 3_600_000}


def parse_settings(settings: Iterable[str], option: str) -> dict[str, str]:
    """KEY=VALUE arguments as a dict."""
    properties = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or not name.strip():
            raise CommandError(f"{option} takes KEY=VALUE, not {setting!r}", USAGE)
        properties[name.strip()] = value
    return properties


def parse_configs(settings: Iterable[str], option: str) -> dict[str, str]:
    """The same for configs of topics and brokers. They have their unit in their name, and take a number: one
    that has a unit of its own is refused, with the number that it would be."""
    configs = parse_settings(settings, option)
    for name, value in configs.items():
        number = _without_unit(name, value)
        if number is not None:
            raise CommandError(f"{name} takes a number without a unit: {name}={number}", USAGE)
    return configs


def _without_unit(name: str, value: str) -> int | None:
    """The number of a value with a unit; None if it is no such thing."""
    text, kind = value.strip().lower(), name.rpartition(".")[2]
    if text.isdigit():
        return None
    if kind == "bytes":
        size = re.fullmatch(r"(\d+)\s*([kmgt]?)(?:i?b)?", text)
        return int(size[1]) * _SIZES[size[2]] if size else None
    if kind not in _MEASURED_MS:
        return None
    try:
        return parse_duration_ms(text, name) // _MEASURED_MS[kind]
    except CommandError:
        return None


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
