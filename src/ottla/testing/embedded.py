"""The broker that `from ottla import Broker` gives: an embedded one, with what a test wants close at hand."""

import logging
from collections.abc import Mapping
from typing import Any

from ottla.shell.embedded import EmbeddedBroker

REQUEST_S = 10.0

_quiet = logging.getLogger("ottla.librdkafka")
_quiet.addHandler(logging.NullHandler())
_quiet.propagate = False


class Broker(EmbeddedBroker):
    """`with Broker() as broker:` serves real clients at `broker.bootstrap_servers` until the block ends.

    config  broker properties, under Kafka's names
    data    a folder that keeps the records over restarts; without it they go to a temporary one
    port    0 takes a free one
    """

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        """Create a topic and wait until it can be used."""
        from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
        client = self._admin()
        client.create_topics([topic], operation_timeout=REQUEST_S)[name].result(REQUEST_S)
        return name

    def delete_topic(self, name: str) -> None:
        client = self._admin()
        client.delete_topics([name], operation_timeout=REQUEST_S)[name].result(REQUEST_S)

    def _admin(self) -> Any:
        from confluent_kafka.admin import AdminClient

        return AdminClient({"bootstrap.servers": self.bootstrap_servers}, logger=_quiet)
