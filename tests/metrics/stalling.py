"""Watched brokers whose disk can be stalled."""

from typing import Any

from tests.cluster.watched import WatchedBroker, WatchedCluster


class StallingBroker(WatchedBroker):
    """Its disk stalls while the file `stall` exists."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.stall = self.folder / "stall"

    def command(self) -> list[str]:
        command = super().command()
        start = command.index("ottla.cli")
        assert command[start - 1] == "-m"
        return [*command[:start], "tests.metrics.slow_disk", str(self.stall), *command[start + 1 :]]


class StallingCluster(WatchedCluster):
    broker_type = StallingBroker
    brokers: dict[int, StallingBroker]  # type: ignore[assignment]
