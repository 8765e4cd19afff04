"""A real ZooKeeper for the tests, gone with the test run however that ends."""

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.support.ports import free_ports
from tests.support.processes import START_S, die_with_parent
from tests.support.waiting import wait_for

from ottla.base.command_error import CommandError
from ottla.cli.cluster.zookeeper_servers import ZooKeeperServer, class_path, java


def skip_without_zookeeper() -> None:
    try:
        java()
        class_path()
    except CommandError as error:
        pytest.skip(str(error))


def _stands_still(process: "subprocess.Popen[bytes]") -> bool:
    try:
        stats = [(task / "stat").read_text() for task in Path(f"/proc/{process.pid}/task").iterdir()]
    except OSError:  # a thread has just ended
        return False
    return all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)


class Ensemble:
    """One or more servers; each can be killed, stopped (SIGSTOP) and started again."""

    def __init__(
        self,
        folder: Path,
        servers: int = 1,
        tick_ms: int = 500,
        host: str = "127.0.0.1",
        settings: Mapping[str, str] | None = None,
        java_options: str = "",
    ) -> None:
        """`settings` are lines more of zoo.cfg."""
        skip_without_zookeeper()
        ports = free_ports(3 * servers)
        self.servers = [
            ZooKeeperServer(n + 1, folder / f"zookeeper-{n + 1}", *ports[3 * n : 3 * n + 3], host)
            for n in range(servers)
        ]
        self._folder = folder
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._environment = {"JAVA_TOOL_OPTIONS": java_options} if java_options else {}
        for one in self.servers:
            config = one.write_config(self.servers, tick_ms)
            with config.open("a") as file:
                file.writelines(f"{name}={value}\n" for name, value in (settings or {}).items())

    @property
    def hosts(self) -> str:
        return ",".join(one.address for one in self.servers)

    @property
    def pids(self) -> dict[int, int]:
        """Of those that were started and not killed, by their number."""
        return {number: process.pid for number, process in self._processes.items()}

    def start(self) -> None:
        for one in self.servers:
            self.start_one(one.number)
        wait_for(lambda: all(one.mode() for one in self.servers), START_S, "ZooKeeper serves")

    def start_one(self, number: int) -> None:
        server = self.servers[number - 1]
        self._processes[number] = server.start(
            is_synced=False, prepare=die_with_parent, environment=self._environment
        )

    def kill(self, number: int) -> None:
        process = self._processes.pop(number)
        process.kill()
        process.wait(10)

    def pause(self) -> None:
        """They all stand still when this returns; after the signal alone their other threads go on."""
        for process in self._processes.values():
            os.kill(process.pid, signal.SIGSTOP)
        wait_for(lambda: all(map(_stands_still, self._processes.values())), START_S, "they stand still")

    def resume(self) -> None:
        for process in self._processes.values():
            os.kill(process.pid, signal.SIGCONT)

    def leader(self) -> int:
        def leader() -> int:
            return next((server.number for server in self.servers if server.mode() == "leader"), 0)

        return wait_for(leader, START_S, "there is a leader")

    def stop(self) -> None:
        for number in list(self._processes):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._processes[number].pid, signal.SIGCONT)
            self.kill(number)
        for one in self.servers:
            shutil.rmtree(one.folder, ignore_errors=True)
