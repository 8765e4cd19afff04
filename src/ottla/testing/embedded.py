"""The broker that `from ottla import Broker` gives: an embedded one, with what a test wants close at hand."""

import logging
import os
import warnings
from collections.abc import Mapping
from typing import Any, TypeAlias

from ottla.broker.config_classes import broker_names
from ottla.broker.kafka_keys import remarks
from ottla.shell.embedded import EmbeddedBroker

REQUEST_S = 30.0
Setting: TypeAlias = str | bool | int | float

_quiet = logging.getLogger("ottla.librdkafka")
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False


class Broker(EmbeddedBroker):
    """`with Broker() as broker:` serves real clients at `broker.bootstrap_servers` until the block ends.

    config  broker properties, under Kafka's names; numbers and booleans may be Python's own
    data    a folder that keeps the records over restarts; without it they go to a temporary one
    port    0 takes a free one
    """

    def __init__(
        self,
        config: Mapping[str, Setting] | None = None,
        data: str | os.PathLike[str] | None = None,
        port: int = 0,
        host: str = "127.0.0.1",
    ) -> None:
        super().__init__(texts(config), data, port, host)
        warn_of_unknown(self.config)

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, Setting] | None = None
    ) -> str:
        """Create a topic and wait until it can be used."""
        return create_topic(self.bootstrap_servers, name, partitions, 1, config)

    def delete_topic(self, name: str) -> None:
        delete_topic(self.bootstrap_servers, name)


def create_topic(
    bootstrap: str, name: str, partitions: int, replicas: int, config: Mapping[str, Setting] | None
) -> str:
    from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

    topic = NewTopic(name, num_partitions=partitions, replication_factor=replicas, config=texts(config))
    client = _admin(bootstrap)
    client.create_topics([topic], operation_timeout=REQUEST_S)[name].result(REQUEST_S)
    return name


def delete_topic(bootstrap: str, name: str) -> None:
    client = _admin(bootstrap)
    client.delete_topics([name], operation_timeout=REQUEST_S)[name].result(REQUEST_S)


def _admin(bootstrap: str) -> Any:
    from confluent_kafka.admin import AdminClient

    return AdminClient({"bootstrap.servers": bootstrap}, logger=_quiet)


def warn_of_unknown(config: Mapping[str, str]) -> None:
    """A key that nobody knows is most often a slip."""
    for sentence in remarks(config, broker_names()):
        warnings.warn(sentence, stacklevel=3)


def texts(config: Mapping[str, Setting] | None) -> dict[str, str]:
    """Values as Kafka writes them."""
    return {name: _text(name, value) for name, value in (config or {}).items()}


def _text(name: str, value: Setting) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, str | int | float):
        return str(value)
    raise TypeError(f"the config key {name!r} takes text, a number or a boolean, not {value!r}")
