"""Configuration as clients see it: every key with its value, where that comes from, and what else would
apply.

A value is looked for in this order, and the first found wins: the topic's own, this broker's, all brokers',
the file or command line, the default. DescribeConfigs shows the whole chain as synonyms.

Of keys that are passwords, and of what is set for one listener alone and is one, the value is never shown.
Names that no row knows may be set for brokers, as in Kafka, whose plugins have keys of their own. Whether
such a value is a secret nobody can say: it is kept, and never shown.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ottla.base.config import (
    ConfigError,
    ConfigType,
    Row,
    load,
    lookup,
    override,
    rows,
    rows_by_group_key,
)
from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.config import BrokerConfig
from ottla.broker.config_classes import CONFIG_CLASSES, broker_names, broker_rows
from ottla.broker.listeners import listeners_named, settings_of
from ottla.broker.security import asks_for_security, is_honoured
from ottla.broker.settings import Settings
from ottla.group.config import GroupConfig
from ottla.log.config import LogConfig
from ottla.security.tls_config import DYNAMIC, TlsConfig

DYNAMIC_TOPIC_CONFIG = 1
DYNAMIC_BROKER_CONFIG = 2
DYNAMIC_DEFAULT_BROKER_CONFIG = 3
STATIC_BROKER_CONFIG = 4
DEFAULT_CONFIG = 5
DYNAMIC_BROKER_LOGGER_CONFIG = 6
DYNAMIC_GROUP_CONFIG = 8

_ROWS = {row.name: row for row in broker_rows()}
_NAMES = broker_names()
_TLS_ROWS = {row.name: row for row in rows(TlsConfig)}
_OF_A_LISTENER = re.compile(r"listener\.name\.[^.]+\.", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Synonym:
    name: str
    value: str | None
    source: int


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known of one key; a key without a row has neither type nor documentation."""

    name: str
    synonyms: tuple[Synonym, ...]
    read_only: bool
    type: ConfigType = ConfigType.UNKNOWN
    doc: str | None = None
    is_sensitive: bool = False

    @property
    def value(self) -> str | None:
        return self.synonyms[0].value

    @property
    def source(self) -> int:
        return self.synonyms[0].source


def describe_topic(settings: Settings, configs: Mapping[str, str]) -> list[Entry]:
    """Every topic-level key, for a topic with these configs of its own."""
    entries = []
    for row in rows(LogConfig):
        if row.topic is None:
            continue
        chain = list(_broker_chain(settings, row))
        if row.topic in configs:
            own = row.text(row.parse(row.topic, configs[row.topic]))
            chain.insert(0, Synonym(row.topic, own, DYNAMIC_TOPIC_CONFIG))
        entries.append(Entry(row.topic, tuple(chain), False, row.type, row.doc))
    return sorted(entries, key=lambda entry: entry.name)


def describe_group(config: GroupConfig, configs: Mapping[str, str]) -> list[Entry]:
    """Every key that a group can have, for a group with these configs of its own. What it has not set comes
    from the broker's `config`, which Kafka calls the default."""
    entries = []
    for name, row in rows_by_group_key(GroupConfig).items():
        chain = [Synonym(name, row.text(getattr(config, row.attribute)), DEFAULT_CONFIG)]
        if name in configs:
            chain.insert(0, Synonym(name, configs[name], DYNAMIC_GROUP_CONFIG))
        entries.append(Entry(name, tuple(chain), False, row.type, row.doc))
    return sorted(entries, key=lambda entry: entry.name)


def describe_broker(settings: Settings) -> list[Entry]:
    entries = [
        Entry(
            row.name, tuple(_broker_chain(settings, row)), not row.dynamic, row.type, row.doc, _is_secret(row)
        )
        for row in broker_rows()
    ]
    unknown: dict[str, list[Synonym]] = {}
    for properties, source in _layers(settings)[:2]:
        for name in properties.keys() - _NAMES:
            shown = properties[name] if _of_listener(name) else None
            unknown.setdefault(name, []).append(Synonym(name, shown, source))
    entries += [_unknown(name, chain) for name, chain in unknown.items()]
    return sorted(entries, key=lambda entry: entry.name)


def describe_default_broker(configs: Mapping[str, str]) -> list[Entry]:
    """The configs that were set for all brokers at once, and no others, as Kafka shows them."""
    source = DYNAMIC_DEFAULT_BROKER_CONFIG
    entries = []
    for name, value in configs.items():
        row = _ROWS.get(name)
        if row is None:
            entries.append(_unknown(name, [Synonym(name, None, source)]))
        else:
            shown = None if _is_secret(row) else value
            chain = (Synonym(name, shown, source),)
            entries.append(Entry(name, chain, False, row.type, row.doc, _is_secret(row)))
    return sorted(entries, key=lambda entry: entry.name)


def _unknown(name: str, chain: Sequence[Synonym]) -> Entry:
    row = _of_listener(name)
    if row is not None:
        return Entry(name, tuple(chain), False, row.type, row.doc)
    return Entry(name, tuple(chain), read_only=True, is_sensitive=True)


def _is_secret(row: Row) -> bool:
    return row.type is ConfigType.PASSWORD


def _of_listener(name: str) -> Row | None:
    """The row of a key of TLS that is set for one listener, and may be while the broker runs."""
    prefix = _OF_A_LISTENER.match(name)
    key = name[prefix.end() :] if prefix else ""
    return _TLS_ROWS[key] if key in DYNAMIC else None


def _layers(settings: Settings) -> list[tuple[Mapping[str, str], int]]:
    sources = (DYNAMIC_BROKER_CONFIG, DYNAMIC_DEFAULT_BROKER_CONFIG, STATIC_BROKER_CONFIG)
    return list(zip(settings.layers(), sources, strict=True))


def _broker_chain(settings: Settings, row: Row) -> Iterator[Synonym]:
    for properties, source in _layers(settings):
        setting = lookup(row, properties)
        if setting is not None:
            yield Synonym(setting[0], None if _is_secret(row) else row.text(setting[1]), source)
    yield Synonym(row.name, None if _is_secret(row) else row.text(row.default), DEFAULT_CONFIG)


def check_broker_configs(settings: Settings, broker: str, configs: Mapping[str, str]) -> None:
    """Refuse what a running broker cannot take: fixed keys, wrong values, security that is not honoured.
    `broker` is '' for all of them."""
    _refuse_security(broker, configs)
    for name in configs:
        if name in _NAMES and not (name in _ROWS and _ROWS[name].dynamic):
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"{name} cannot be changed while the broker runs; set it at its start.",
            )
    try:
        for config_class in CONFIG_CLASSES:
            load(config_class, configs)
        for listener in listeners_named(configs):
            load(BrokerConfig, settings_of(configs, listener))
        if any(map(_of_listener, configs)):
            settings.check_tls(configs)
    except ConfigError as error:
        # Kafka's code for this, and not INVALID_CONFIG as for topics (KAFKA-13609).
        raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from None


def _refuse_security(broker: str, configs: Mapping[str, str]) -> None:
    """What asks for security is not kept without effect, as it ends a start."""
    for name, value in configs.items():
        if _of_listener(name):
            if not broker:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST, f"{name} is one broker's; it cannot be set for all of them."
                )
        elif name in _TLS_ROWS and _TLS_ROWS[name].dynamic:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"While the broker runs, {name} can be set for one listener alone: listener.name.X.{name}.",
            )
        elif is_honoured(name):
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"{name} cannot be changed while the broker runs; set it at its start.",
            )
        if asks_for_security(name, value):
            raise ApiError(
                ErrorCode.INVALID_CONFIG,
                f"{name}: this kind of security is not there; it would have no effect.",
            )


def check_group_configs(config: GroupConfig, group: str, configs: Mapping[str, str]) -> None:
    if not group:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, "A group needs a name: there are no defaults of all groups."
        )
    try:
        override(config, configs)
    except ConfigError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from None
