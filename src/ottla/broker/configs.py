"""Configuration as clients see it: every key with its value, where that comes from, and what else would
apply.

A value is looked for in this order, and the first found wins: the topic's own, this broker's, all brokers',
the file or command line, the default. DescribeConfigs shows the whole chain as synonyms.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ottla.base.config import ConfigError, Row, load, lookup, rows
from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.broker import Broker
from ottla.broker.config import BrokerConfig
from ottla.broker.security import asks_for_security
from ottla.group.config import GroupConfig
from ottla.log.config import LogConfig, StoreConfig

DYNAMIC_TOPIC_CONFIG = 1
DYNAMIC_BROKER_CONFIG = 2
DYNAMIC_DEFAULT_BROKER_CONFIG = 3
STATIC_BROKER_CONFIG = 4
DEFAULT_CONFIG = 5

BROKER_CONFIGS: tuple[type, ...] = (BrokerConfig, LogConfig, StoreConfig, GroupConfig)


@dataclass(frozen=True, slots=True)
class Synonym:
    name: str
    value: str
    source: int


@dataclass(frozen=True, slots=True)
class Entry:
    row: Row
    name: str
    synonyms: tuple[Synonym, ...]
    read_only: bool

    @property
    def value(self) -> str:
        return self.synonyms[0].value

    @property
    def source(self) -> int:
        return self.synonyms[0].source


def describe_topic(broker: Broker, configs: Mapping[str, str]) -> list[Entry]:
    """Every topic-level key, for a topic with these configs of its own."""
    entries = []
    for row in rows(LogConfig):
        if row.topic is None:
            continue
        chain = list(_broker_chain(broker, row))
        if row.topic in configs:
            own = row.text(row.parse(row.topic, configs[row.topic]))
            chain.insert(0, Synonym(row.topic, own, DYNAMIC_TOPIC_CONFIG))
        entries.append(Entry(row, row.topic, tuple(chain), read_only=False))
    return sorted(entries, key=lambda entry: entry.name)


def describe_broker(broker: Broker) -> list[Entry]:
    entries = [
        Entry(row, row.name, tuple(_broker_chain(broker, row)), read_only=not row.dynamic)
        for cls in BROKER_CONFIGS
        for row in rows(cls)
    ]
    return sorted(entries, key=lambda entry: entry.name)


def describe_default_broker(broker: Broker) -> list[Entry]:
    """What was set for all brokers at once: only that, as Kafka shows it."""
    shared = broker.image.broker_config("")
    return [
        Entry(row, row.name, (Synonym(row.name, shared[row.name], DYNAMIC_DEFAULT_BROKER_CONFIG),), False)
        for cls in BROKER_CONFIGS
        for row in rows(cls)
        if row.name in shared
    ]


def _broker_chain(broker: Broker, row: Row) -> Iterator[Synonym]:
    layers = (
        (broker.image.broker_config(str(broker.id)), DYNAMIC_BROKER_CONFIG),
        (broker.image.broker_config(""), DYNAMIC_DEFAULT_BROKER_CONFIG),
        (broker.properties, STATIC_BROKER_CONFIG),
    )
    for properties, source in layers:
        found = lookup(row, properties)
        if found is not None:
            yield Synonym(found[0], row.text(found[1]), source)
    yield Synonym(row.name, row.text(row.default), DEFAULT_CONFIG)


def check_broker_configs(configs: Mapping[str, str]) -> None:
    """Refuse what a running broker cannot take: unknown keys, fixed keys, wrong values."""
    known = {row.name: row for cls in BROKER_CONFIGS for row in rows(cls)}
    _refuse_security(configs)
    for name in configs:
        if name not in known:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"unknown broker config name: {name}")
        if not known[name].dynamic:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"{name} cannot be changed while the broker runs; set it at its start.",
            )
    try:
        for cls in BROKER_CONFIGS:
            load(cls, configs)
    except ConfigError as error:
        # Kafka's code for this, and not INVALID_CONFIG as for topics (KAFKA-13609).
        raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from None


def _refuse_security(configs: Mapping[str, str]) -> None:
    """What asks for security is not kept without effect, as it ends a start."""
    for name, value in configs.items():
        if asks_for_security(name, value):
            raise ApiError(
                ErrorCode.INVALID_CONFIG,
                f"{name}: TLS, SASL and access control are not there yet; it would have no effect.",
            )
