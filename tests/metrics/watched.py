"""Brokers that serve metrics, and have a disk that can be stalled."""

import urllib.request
from typing import Any

from tests.cluster.real import RealBroker, RealCluster
from tests.support.ports import free_ports


class WatchedBroker(RealBroker):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.http = f"127.0.0.1:{free_ports(1)[0]}"
        self.stall = self.folder / "stall"

    def command(self) -> list[str]:
        command = [*super().command(), "--set", f"ottla.http.listener={self.http}"]
        start = command.index("ottla.cli")
        assert command[start - 1] == "-m"
        return [*command[:start], "tests.metrics.slow_disk", str(self.stall), *command[start + 1 :]]

    def metrics(self) -> dict[str, float]:
        with urllib.request.urlopen(f"http://{self.http}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        samples = (line.rpartition(" ") for line in lines if not line.startswith("#"))
        return {name: float(value) for name, _, value in samples}


class WatchedCluster(RealCluster):
    broker_type = WatchedBroker
    brokers: dict[int, WatchedBroker]  # type: ignore[assignment]

    def sum(self, name: str) -> float:
        """Over all brokers that run."""
        return sum(broker.metrics().get(name, 0) for broker in self.brokers.values() if broker.is_running)
