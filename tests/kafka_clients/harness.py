"""A real broker in a process of its own, and how to wait for things.

Rules: loopback only, a free port, data in a temporary folder. The process dies with the test run, however
that ends. Nothing here sleeps for a time that a test depends on: `wait_for` polls, with a deadline.
"""

import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import psutil
from confluent_kafka.admin import AdminClient, NewTopic
from tests.ports import free_ports

T = TypeVar("T")

STOP_S = 60.0
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)

# What a broker never writes to its log unless something is wrong with the broker itself.
BUGS = re.compile(r"bug:|Traceback|Exception in callback|never retrieved|was never awaited|ResourceWarning")


def wait_for(condition: Callable[[], T], deadline_s: float = 30.0, what: str = "") -> T:
    """The first true value of `condition`; AssertionError when it does not come in time. It is looked at once
    more after the deadline: this process may have stood still."""
    end = time.monotonic() + deadline_s
    while True:
        is_late = time.monotonic() > end
        value = condition()
        if value:
            return value
        assert not is_late, f"waited {deadline_s} s in vain for {what or condition}"
        time.sleep(0.005)


def is_gone(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _die_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class BrokerProcess:
    """`ottla start` as its user would run it. It can be killed and started again on the same port."""

    def __init__(self, folder: Path, settings: dict[str, str] | None = None, log_level: str = "info") -> None:
        self.data = folder / "data"
        self.log_level = log_level
        (self.port,) = free_ports(1)
        self.settings = settings or {}
        self.log_path = folder / "broker.log"
        self._process: subprocess.Popen[str] | None = None
        self._admin: AdminClient | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def process(self) -> subprocess.Popen[str]:
        assert self._process is not None, "the broker is not running"
        return self._process

    @property
    def pids(self) -> list[int]:
        return [self.process.pid]

    @property
    def log(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def command(self) -> list[str]:
        sets = [part for key, value in self.settings.items() for part in ("--set", f"{key}={value}")]
        where = ["--listen", self.bootstrap, "--data", str(self.data)]
        return [sys.executable, "-m", "ottla.cli", "start", *where, *sets, "--log-level", self.log_level]

    def start(self) -> float:
        """Start, and wait until it serves. The seconds that took."""
        began = time.monotonic()
        with self.log_path.open("a") as log:
            self._process = subprocess.Popen(
                self.command(),
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                preexec_fn=_die_with_parent,
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if "ready" not in line:
            self.kill()
            raise AssertionError(f"the broker did not start: {line!r}\n{self.log[-4000:]}")
        return time.monotonic() - began

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._forget()

    def stop(self) -> int:
        """SIGTERM. The exit code."""
        self.process.terminate()
        try:
            return self.process.wait(STOP_S)
        finally:
            self.process.kill()
            self._forget()

    def _forget(self) -> None:
        process, self._process, self._admin = self.process, None, None
        process.wait()
        if process.stdout is not None:
            process.stdout.close()

    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

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
