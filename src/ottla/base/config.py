"""A configuration key is one row: name, type, default, check, documentation. The rest is derived from it.

A dataclass of rows is a config; `load` fills one from the properties an operator wrote. Kafka's names and
defaults stand wherever Kafka has the key. A row with `topic=` may also be set per topic, under that name, one
with `group=` per group; one with `dynamic=True` may be changed while the broker runs. Values are parsed once,
here, and are typed after. A password is in no error and no `repr`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import Any, TypeVar, get_type_hints

INT_MAX = (1 << 31) - 1
LONG_MAX = (1 << 63) - 1
HINT_CHARACTERS_MAX = 100  # of a name that is compared with those that are known

Check = Callable[[Any], str | None]
C = TypeVar("C")


class ConfigError(ValueError):
    """A key or value somebody got wrong; the message names the key."""


class ConfigType(IntEnum):
    """The type of a value as DescribeConfigs reports it."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigResourceType(IntEnum):
    """What has configs of its own, as the protocol and Apache Kafka's metadata log number it."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


@dataclass(frozen=True, slots=True)
class Row:
    """One configuration key, as everything that is derived from it sees it."""

    attribute: str
    name: str
    type: ConfigType
    default: Any
    doc: str
    check: Check | None
    topic: str | None
    dynamic: bool
    synonyms: tuple[tuple[str, int], ...]
    group: str | None = None

    def parse(self, name: str, text: str) -> Any:
        try:
            value = _PARSERS[self.type](text.strip())
        except (ValueError, KeyError):
            raise ConfigError(f"{name}: {text!r} is not a valid {self.type.name.lower()}") from None
        if self.check and (problem := self.check(value)):
            got = "" if self.type is ConfigType.PASSWORD else f", got {text!r}"
            raise ConfigError(f"{name}: {problem}{got}")
        return value

    def text(self, value: Any) -> str:
        """A value as an operator would write it, and as DescribeConfigs shows it."""
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, tuple):
            return ",".join(value)
        return str(value)


def key(
    name: str,
    default: Any,
    doc: str,
    *,
    type: ConfigType | None = None,  # noqa: A002
    check: Check | None = None,
    topic: str | None = None,
    dynamic: bool = False,
    synonyms: tuple[tuple[str, int], ...] = (),
    group: str | None = None,
) -> Any:
    """Declare a key. `synonyms` are coarser broker keys for the same thing, with its factor to this one."""
    metadata = {
        "name": name, "doc": doc, "type": type, "check": check,
        "topic": topic, "dynamic": dynamic, "synonyms": synonyms, "group": group,
    }  # fmt: skip
    return field(default=default, metadata=metadata, repr=type is not ConfigType.PASSWORD)


def rows(cls: type) -> tuple[Row, ...]:
    if cls not in _ROWS:
        _ROWS[cls] = tuple(_rows(cls))
    return _ROWS[cls]


def _rows(cls: type) -> Iterator[Row]:
    hints = get_type_hints(cls)
    for item in fields(cls):
        given = dict(item.metadata)
        declared = given.pop("type") or _TYPES[hints[item.name]]
        yield Row(attribute=item.name, type=declared, default=item.default, **given)


def rows_by_topic_key(cls: type) -> dict[str, Row]:
    return {row.topic: row for row in rows(cls) if row.topic}


def rows_by_group_key(cls: type) -> dict[str, Row]:
    return {row.group: row for row in rows(cls) if row.group}


def load(cls: type[C], properties: Mapping[str, str]) -> C:
    """A config from broker properties; keys of other configs are left alone."""
    values = {}
    for row in rows(cls):
        setting = lookup(row, properties)
        if setting is not None:
            values[row.attribute] = setting[1]
    return cls(**values)


def overlaid(properties: Mapping[str, str], prefix: str) -> dict[str, str]:
    """The properties as they hold where a prefix, in small letters, does: what begins with it goes before
    what does not."""
    own = {
        name[len(prefix) :]: value for name, value in properties.items() if name.lower().startswith(prefix)
    }
    return {**properties, **own}


def lookup(row: Row, properties: Mapping[str, str]) -> tuple[str, Any] | None:
    """The name under which broker properties set this row, and the value; the finest unit wins."""
    if row.name in properties:
        return row.name, row.parse(row.name, properties[row.name])
    for name, factor in row.synonyms:
        if name in properties:
            value = row.parse(name, properties[name])
            return name, value if factor == 1 or value <= 0 else value * factor
    return None


def override(config: C, properties: Mapping[str, str]) -> C:
    """A topic's or a group's config: the broker's, with its own keys laid over it, if it has any."""
    if not properties:
        return config
    by_topic_key = rows_by_topic_key(type(config))
    by_key = by_topic_key or rows_by_group_key(type(config))
    values = {row.attribute: getattr(config, row.attribute) for row in rows(type(config))}
    for name, text in properties.items():
        if name not in by_key:
            kind = "topic" if by_topic_key else "group"
            raise ConfigError(f"unknown {kind} config name: {name}{_meant(name, by_key)}")
        values[by_key[name].attribute] = by_key[name].parse(name, text)
    return type(config)(**values)


def _meant(name: str, names: Iterable[str]) -> str:
    if len(name) > HINT_CHARACTERS_MAX:  # to compare takes the longer the longer it is
        return ""
    import difflib  # late: hardly anybody pays for it

    near = difflib.get_close_matches(name, names, 2)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def names_of(row: Row) -> tuple[str, ...]:
    """All names under which broker properties can set a row."""
    return row.name, *(name for name, _ in row.synonyms)


def at_least(low: float) -> Check:
    return lambda value: None if value >= low else f"must be at least {low}"


def between(low: float, high: float) -> Check:
    return lambda value: None if low <= value <= high else f"must be between {low} and {high}"


def one_of(*allowed: str) -> Check:
    def check(value: Any) -> str | None:
        given = value if isinstance(value, tuple) else (value,)
        return None if given and set(given) <= set(allowed) else f"must be one of {', '.join(allowed)}"

    return check


def _boolean(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _bounded(bits: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not _INTEGER.match(text):
            raise ValueError(text)  # int() would also take 1_000 and digits of other scripts
        value = int(text)
        if not -(1 << bits) <= value < 1 << bits:
            raise ValueError(text)
        return value

    return parse


_INTEGER = re.compile(r"[+-]?[0-9]+\Z")
_ROWS: dict[type, tuple[Row, ...]] = {}
_PARSERS: dict[ConfigType, Callable[[str], Any]] = {
    ConfigType.BOOLEAN: _boolean,
    ConfigType.STRING: str,
    ConfigType.INT: _bounded(31),
    ConfigType.SHORT: _bounded(15),
    ConfigType.LONG: _bounded(63),
    ConfigType.DOUBLE: float,
    ConfigType.LIST: _list,
    ConfigType.CLASS: str,
    ConfigType.PASSWORD: str,
}
_TYPES: dict[Any, ConfigType] = {
    bool: ConfigType.BOOLEAN,
    str: ConfigType.STRING,
    int: ConfigType.INT,
    float: ConfigType.DOUBLE,
    tuple[str, ...]: ConfigType.LIST,
}
