"""A whole cluster on this machine: its processes, and the file in its folder that remembers them.

`DIR/cluster.json` names every ZooKeeper and broker with its port and, while it runs, its process: the id and
the time it began, so that another process which got the same id later is left alone.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from ottla.base.command_error import CommandError
from ottla.cli.cluster.zookeeper_servers import ZooKeeperServer
from ottla.cli.options import DIRECTORY
from ottla.client.properties import DEFAULT_BOOTSTRAP, ClientProperties

FILE = "cluster.json"
CHROOT = "/ottla"
OTHER_ID = "give this one another --id"  # which `ottla start` has, and `ottla cluster up` has not
OTHER_CHROOT = "give this cluster a chroot of its own: --zookeeper HOST:PORT/CHROOT"
START_S = 90.0
STOP_S = 40.0
TICK_MS = 2_000
POLL_S = 0.05


@dataclass(slots=True)
class Process:
    """One server. `pid` and `began` are 0 while it does not run, `http_port` is 0 if it serves no metrics."""

    name: str
    number: int
    port: int
    pid: int = 0
    began: int = 0
    http_port: int = 0

    @property
    def is_running(self) -> bool:
        return self.pid > 0 and _began(self.pid) == self.began

    def took(self, child: "subprocess.Popen[bytes]") -> None:
        """It is on its own now: whoever started it does not wait for it."""
        self.pid, self.began = child.pid, _began(child.pid)
        child.returncode = 0

    def send(self, number: int) -> None:
        if self.is_running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


@dataclass(slots=True)
class LocalCluster:
    """What runs, or ran, in one folder. `zookeeper` is an ensemble that somebody else runs, if any."""

    folder: Path
    zookeeper: str = ""
    zookeepers: list[Process] = field(default_factory=list)
    brokers: list[Process] = field(default_factory=list)
    settings: list[str] = field(default_factory=list)

    @classmethod
    def load(cls, folder: Path) -> "LocalCluster | None":
        path = folder / FILE
        if not path.exists():
            return None
        try:
            stored = json.loads(path.read_text())
            return cls(
                folder,
                stored["zookeeper"],
                [Process(**process) for process in stored["zookeepers"]],
                [Process(**process) for process in stored["brokers"]],
                stored["settings"],
            )
        except (ValueError, KeyError, TypeError) as error:
            raise CommandError(f"{path} is not what `ottla cluster up` writes: {error}") from None

    def save(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        stored = {**asdict(self), "folder": str(self.folder)}
        beside = self.folder / f"{FILE}.tmp"
        beside.write_text(json.dumps(stored, indent=2) + "\n")
        beside.replace(self.folder / FILE)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{broker.port}" for broker in self.brokers)

    @property
    def http_addresses(self) -> list[str]:
        """Where brokers serve metrics and health."""
        return [f"http://127.0.0.1:{broker.http_port}" for broker in self.brokers if broker.http_port]

    @property
    def ensemble(self) -> str:
        return self.zookeeper or ",".join(f"127.0.0.1:{server.port}" for server in self.zookeepers) + CHROOT

    @property
    def processes(self) -> list[Process]:
        return [*self.zookeepers, *self.brokers]

    def zookeeper_servers(self) -> list[ZooKeeperServer]:
        return [
            ZooKeeperServer(
                process.number,
                self.folder / process.name,
                process.port,
                process.port + 100,
                process.port + 200,
            )
            for process in self.zookeepers
        ]

    def log_of(self, process: Process) -> Path:
        kind = "zookeeper" if process in self.zookeepers else "broker"
        return self.folder / process.name / f"{kind}.log"

    # -- start --

    def check_ports(self) -> None:
        servers = {process.number: process for process in self.zookeeper_servers()}
        for process in self.processes:
            ports = [process.port, process.http_port] if process.http_port else [process.port]
            if process in self.zookeepers and len(self.zookeepers) > 1:
                ports += [servers[process.number].quorum_port, servers[process.number].election_port]
            for port in [] if process.is_running else ports:
                if not 0 < port < 65_536 or _is_taken(port):
                    option = "--http" if port == process.http_port else "--base-port"
                    raise CommandError(f"port {port} for {process.name} is taken; choose another {option}")

    def start_zookeepers(self) -> None:
        servers = self.zookeeper_servers()
        for process, server in zip(self.zookeepers, servers, strict=True):
            if not process.is_running:
                server.write_config(servers, TICK_MS)
                process.took(server.start())
                self.save()
        self._wait(
            lambda: all(server.mode() for server in servers), self.zookeepers, "ZooKeeper does not serve"
        )

    def start_brokers(self) -> None:
        for broker in self.brokers:
            if not broker.is_running:
                broker.took(self._launch(broker))
                self.save()

    def wait_for_brokers(self, is_complete: Callable[[], bool]) -> None:
        self._wait(is_complete, self.brokers, "the brokers do not form a cluster")

    def _launch(self, broker: Process) -> "subprocess.Popen[bytes]":
        folder = self.folder / broker.name
        folder.mkdir(parents=True, exist_ok=True)
        command = [
            sys.executable, "-m", "ottla.cli", "start", "--zookeeper", self.ensemble,
            "--id", str(broker.number), "--listen", f"127.0.0.1:{broker.port}",
            "--data", str(folder / "data"),
        ]  # fmt: skip
        if broker.http_port:
            command += ["--http", str(broker.http_port)]
        for setting in self.settings:
            command += ["--set", setting]
        with open(folder / "broker.log", "ab") as said:
            return subprocess.Popen(  # noqa: S603 - ourselves
                command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
            )

    def _wait(self, is_reached: Callable[[], bool], needed: Sequence[Process], what: str) -> None:
        deadline = time.monotonic() + START_S
        while not is_reached():
            for process in needed:
                if not process.is_running:
                    raise CommandError(f"{process.name} ended: {_last_line(self.log_of(process))}")
            if time.monotonic() > deadline:
                last = _last_line(self.log_of(needed[0]))
                raise CommandError(f"{what} after {START_S:.0f} s; {needed[0].name} said last: {last}")
            time.sleep(POLL_S)

    # -- stop --

    def untouched(self) -> list[Path]:
        """Where servers will keep their data that have no folder yet."""
        folders = [self.folder / process.name for process in self.processes]
        return [folder / "data" for folder in folders if not folder.exists()]

    def forget(self, data: Sequence[Path]) -> None:
        """A cluster that did not come about is not in the way of the next one; its logs stay."""
        self.stop()
        for folder in data:
            shutil.rmtree(folder, ignore_errors=True)
        (self.folder / FILE).unlink(missing_ok=True)

    def stop(self) -> list[str]:
        """Brokers first, all at once, then what they depend on. Answers who had to be killed."""
        killed = [*self._stop(self.brokers), *self._stop(self.zookeepers)]
        for process in self.processes:
            process.pid = process.began = 0
        self.save()
        return killed

    def _stop(self, processes: Sequence[Process]) -> Iterator[str]:
        for process in processes:
            process.send(signal.SIGTERM)
            process.send(signal.SIGCONT)
        deadline = time.monotonic() + STOP_S
        while any(process.is_running for process in processes) and time.monotonic() < deadline:
            time.sleep(POLL_S)
        for process in processes:
            if process.is_running:
                process.send(signal.SIGKILL)
                yield process.name


def _began(pid: int) -> int:
    """When a process began, in ticks since the machine did; 0 if it is gone."""
    with contextlib.suppress(ChildProcessError, OSError):
        os.waitpid(pid, os.WNOHANG)  # if it was ours, and has ended, let it go
    try:
        said = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return _is_there(pid) if not os.path.isdir("/proc/self") else 0
    return 0 if said[0] == b"Z" else int(said[19])


def _is_there(pid: int) -> int:
    """Without /proc (macOS) an id must do."""
    try:
        os.kill(pid, 0)
    except OSError:
        return 0
    return 1


def in_directory(where: ClientProperties, directory: Path) -> ClientProperties:
    """Where somebody says; else the brokers of the cluster in a folder; without one, and without being told
    of one, the usual place."""
    if where.bootstrap:
        return where
    local = LocalCluster.load(directory)
    if local is None and directory != DIRECTORY:
        raise CommandError(f"there is no cluster in {directory}; name it with --dir, or use --bootstrap")
    return replace(where, bootstrap=DEFAULT_BOOTSTRAP if local is None else local.bootstrap)


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


def _last_line(path: Path) -> str:
    lines = path.read_text(errors="replace").strip().splitlines() if path.exists() else []
    if not lines:
        return f"{path} does not say why"
    return f"{lines[-1].removeprefix('ottla: ').replace(OTHER_ID, OTHER_CHROOT)} ({path})"
