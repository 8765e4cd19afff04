"""A real broker in a process of its own: a free port of the loopback, data in a temporary folder."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.ports import free_ports
from tests.support.processes import OttlaProcess
from tests.support.waiting import wait_for as wait_for

# What a broker never writes to its log unless something is wrong with the broker itself.
BUGS = re.compile(r"bug:|Traceback|Exception in callback|never retrieved|was never awaited|ResourceWarning")


def is_gone(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


class BrokerProcess(OttlaProcess):
    """A single broker, with its keeper in its data directory."""

    def __init__(self, folder: Path, settings: dict[str, str] | None = None, log_level: str = "info") -> None:
        super().__init__(folder, *free_ports(1), settings or {})
        self.data = folder / "data"
        self.log_level = log_level
        self._admin: AdminClient | None = None

    @property
    def bootstrap(self) -> str:
        return self.address

    @property
    def pids(self) -> list[int]:
        return [self.process.pid]

    def command(self) -> list[str]:
        return [*super().command(), "--data", str(self.data)]

    def launch(self) -> None:
        self._admin = None
        super().launch()

    def rss_bytes(self) -> int:
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def peak_rss_bytes(self) -> int:
        """The most it has had since it was started."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM:"))

    def open_files(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def bugs(self) -> list[str]:
        """Lines of the log that only a bug can write, each with what follows it."""
        lines = self.log.splitlines()
        return ["\n".join(lines[n : n + 30]) for n, line in enumerate(lines) if BUGS.search(line)]

    # -- topics ----------------------------------------------------------------------------------------------

    @property
    def admin(self) -> AdminClient:
        """A new one for each process: librdkafka 2.16 can wait for ever for a connection that it closes."""
        if self._admin is None:
            self._admin = AdminClient({"bootstrap.servers": self.bootstrap})
        return self._admin

    def create_topic(self, name: str, partitions: int = 1, config: dict[str, str] | None = None) -> str:
        new = NewTopic(name, num_partitions=partitions, replication_factor=1, config=config or {})
        self.admin.create_topics([new])[name].result(30)
        return name

    def delete_topic(self, name: str) -> None:
        self.admin.delete_topics([name])[name].result(30)

    def segments(self, topic: str, partition: int = 0) -> list[Path]:
        return sorted((self.data / f"{topic}-{partition}").glob("*.log"))


@contextmanager
def serving(folder: Path, settings: dict[str, str] | None = None) -> Iterator[BrokerProcess]:
    """A broker that serves all tests of a folder, and stops cleanly after them."""
    broker = BrokerProcess(folder, settings)
    broker.start()
    try:
        yield broker
        assert broker.is_running, broker.log[-4000:]
        assert broker.stop() == 0
        assert broker.bugs() == []
    finally:
        broker.kill()


@contextmanager
def starter(folders: Callable[[str], Path]) -> Iterator[Callable[..., BrokerProcess]]:
    """Starts brokers with settings of their own, which are killed in the end, whatever became of the test."""
    started: list[BrokerProcess] = []

    def start(settings: dict[str, str] | None = None, log_level: str = "info") -> BrokerProcess:
        broker = BrokerProcess(folders("broker"), settings, log_level)
        started.append(broker)
        broker.start()
        return broker

    try:
        yield start
    finally:
        for broker in started:
            broker.kill()
    assert [bug for broker in started for bug in broker.bugs()] == []
