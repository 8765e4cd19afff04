"""The configs of this broker: its file, overridden by those of all brokers, overridden by its own.

Until the broker is in a cluster, the copies beside its logs take the place of the keeper's configs
(`adoption`). The broker id never changes. Every other config may, so code reads it each time it needs it.
"""

from collections.abc import Callable, Mapping
from typing import Protocol

from ottla.base.config import INT_MAX, load, override
from ottla.broker.config import BrokerConfig
from ottla.broker.listeners import listeners_named, settings_of
from ottla.broker.metrics_config import HTTP_LISTENER, MetricsConfig
from ottla.controller.image import Image
from ottla.log.config import LogConfig, StoreConfig
from ottla.txn.config import TransactionConfig


class ConfigSource(Protocol):
    """Where dynamic configs come from: the keeper's tree, or the copies beside the logs."""

    def broker_config(self, broker: str) -> dict[str, str]: ...
    def topic_config(self, topic: str) -> dict[str, str]: ...


class Settings:
    def __init__(self, properties: dict[str, str], image: Image) -> None:
        self.properties = properties
        self._image = image
        self._adopted: ConfigSource = image
        self.config = load(BrokerConfig, properties)
        self.broker_id = self.config.node_id
        # ConfigError: with these configs of this broker, a listener could not be served with TLS.
        self.check_tls: Callable[[Mapping[str, str]], None] = lambda _configs: None
        self.load()

    def load(self, adopted: ConfigSource | None = None) -> None:
        """Read all configs again. `adopted` is used as long as this broker is in no cluster."""
        self._adopted = adopted or self._adopted
        merged = {
            **self.properties,
            **self._source.broker_config(""),
            **self._source.broker_config(str(self.broker_id)),
        }
        self.config = load(BrokerConfig, merged)
        self._of_listeners = {
            name: load(BrokerConfig, settings_of(merged, name)) for name in listeners_named(merged)
        }
        configs = (self.config, *self._of_listeners.values())
        self.limits_arrivals = any(config.connection_creation_rate_max < INT_MAX for config in configs)
        self.log_config = load(LogConfig, merged)
        self.store_config = load(StoreConfig, merged)
        self.transaction_config = load(TransactionConfig, merged)
        self.metrics_config = load(MetricsConfig, merged)

    def on_http_bound(self, address: str) -> None:
        """HTTP is served there. Who asks for the configs of this broker finds it, and not a port of 0."""
        self.properties = self.properties | {HTTP_LISTENER: address}
        self.load()

    def listener_config(self, listener: str) -> BrokerConfig:
        """The configs as they hold for one listener (`listener.name.X.`)."""
        return self._of_listeners.get(listener.lower(), self.config)

    @property
    def _source(self) -> ConfigSource:
        return self._image if self._image.cluster_id else self._adopted

    def layers(self) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
        """The configs of this broker, of all brokers, and of its file. The first that has a key wins."""
        image = self._image
        return image.broker_config(str(self.broker_id)), image.broker_config(""), self.properties

    def topic_config(self, topic: str) -> dict[str, str]:
        """The configs that a topic overrides."""
        return self._source.topic_config(topic)

    def topic_log_config(self, topic: str) -> LogConfig:
        """The configs of the logs of a topic of the cluster, overrides included."""
        return override(self.log_config, self._image.topic_config(topic))
