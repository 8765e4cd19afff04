"""What this broker is set to: its file, then what was set for all brokers, then for this one.

Until the broker is in a cluster, what was found beside its logs counts in place of what the keeper says
(`adoption`). The id never changes; everything else may, so whoever needs a setting asks for it when it
counts.
"""

from typing import Protocol

from ottla.base.config import load, override
from ottla.broker.config import BrokerConfig
from ottla.controller.image import Image
from ottla.log.config import LogConfig, StoreConfig


class Known(Protocol):
    """Who knows what was set: the keeper's tree, or what lies beside the logs."""

    def broker_config(self, broker: str) -> dict[str, str]: ...
    def topic_config(self, topic: str) -> dict[str, str]: ...


class Settings:
    def __init__(self, properties: dict[str, str], image: Image) -> None:
        self.properties = properties
        self._image = image
        self._found: Known = image
        self.config = load(BrokerConfig, properties)
        self.broker_id = self.config.node_id
        self.load()

    def load(self, found: Known | None = None) -> None:
        """Set everything anew. `found` is what counts as long as this broker is in no cluster."""
        self._found = found or self._found
        merged = {
            **self.properties,
            **self._known.broker_config(""),
            **self._known.broker_config(str(self.broker_id)),
        }
        self.config = load(BrokerConfig, merged)
        self.log_config = load(LogConfig, merged)
        self.store_config = load(StoreConfig, merged)

    @property
    def _known(self) -> Known:
        return self._image if self._image.cluster_id else self._found

    def topic_config(self, topic: str) -> dict[str, str]:
        """What is set for a topic."""
        return self._known.topic_config(topic)

    def topic_log_config(self, topic: str) -> LogConfig:
        """What counts for the logs of a topic of the cluster."""
        return override(self.log_config, self._image.topic_config(topic))
