"""Real brokers that serve metrics and health, each at an address of its own."""

from typing import Any

from tests.cluster.real import RealBroker, RealCluster
from tests.support.http import Page, get
from tests.support.metrics import metrics_at
from tests.support.ports import free_ports


class WatchedBroker(RealBroker):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.http = f"127.0.0.1:{free_ports(1)[0]}"

    def command(self) -> list[str]:
        return [*super().command(), "--http", self.http]

    def metrics(self) -> dict[str, float]:
        return metrics_at(self.http)

    def ready(self) -> Page:
        return get(self.http, "/health/ready")


class WatchedCluster(RealCluster):
    broker_type = WatchedBroker
    brokers: dict[int, WatchedBroker]  # type: ignore[assignment]

    def sum(self, name: str) -> float:
        """Over all brokers that run."""
        return sum(broker.metrics().get(name, 0) for broker in self.brokers.values() if broker.is_running)
