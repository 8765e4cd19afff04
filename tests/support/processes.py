"""A broker in a process of its own: started, stopped, stalled and killed as its operator could.

Rules: loopback or a network namespace, data in a temporary folder. The process dies with the test run,
however that ends.
"""

import ctypes
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

from tests.support.waiting import wait_for

START_S = 60.0
STOP_S = 60.0
PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def die_with_parent() -> None:
    """For a child, between fork and exec."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Server(Protocol):
    def start(self) -> object: ...
    def stop(self) -> object: ...


S = TypeVar("S", bound=Server)


@contextmanager
def running(server: S) -> Iterator[S]:
    """Started, and stopped in the end, however far it came."""
    try:
        server.start()
        yield server
    finally:
        server.stop()


class OttlaProcess:
    """`ottla start`. It can be started again, on the same port and data."""

    host = "127.0.0.1"
    log_level = "info"

    def __init__(self, folder: Path, port: int, settings: Mapping[str, str]) -> None:
        self.folder, self.port, self.settings = folder, port, settings
        self.log_path = folder / "broker.log"
        self._ready_path = folder / "ready"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        assert self._process is not None, "the broker was never started"
        return self._process

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def command(self) -> list[str]:
        """All but where its data is."""
        settings = [part for key, value in self.settings.items() for part in ("--set", f"{key}={value}")]
        start = [sys.executable, "-m", "ottla.cli", "start", "--listen", self.address]
        return [*start, "--log-level", self.log_level, *settings]

    def launch(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("a") as log, self._ready_path.open("w") as ready:
            self._process = subprocess.Popen(
                self.command(), stdout=ready, stderr=log, preexec_fn=die_with_parent
            )

    def wait_ready(self, within_s: float = START_S) -> None:
        wait_for(lambda: self._is_ready or not self.is_running, within_s, "the broker to start")
        if not self._is_ready:
            raise AssertionError(f"the broker did not start\n{self.log[-4000:]}")

    @property
    def _is_ready(self) -> bool:
        return "is ready" in self._ready_path.read_text()

    def start(self, within_s: float = START_S) -> float:
        """Start, and wait until it serves. The seconds that took."""
        began = time.monotonic()
        self.launch()
        try:
            self.wait_ready(within_s)
        except AssertionError:
            self.kill()
            raise
        return time.monotonic() - began

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> int:
        """SIGTERM. The exit code."""
        self.process.terminate()
        try:
            return self.wait_ended(STOP_S)
        finally:
            self.kill()

    def wait_ended(self, within_s: float) -> int:
        return self.process.wait(within_s)

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)
