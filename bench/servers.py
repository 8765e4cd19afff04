"""Peers: brokers in processes of their own, on free loopback ports, with data in a temporary folder.

A peer is a context manager. Leaving it ends the whole process group and removes the folder, however the
run went. CPU and memory are those of the process and its living children.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from typing import Self

import psutil
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

HOST = "127.0.0.1"
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
STOP_S = 15.0


def end_on_sigterm() -> None:
    """Let SIGTERM end this program through its context managers, so that no broker stays behind."""
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))


class PeerError(Exception):
    """A peer or a load did not do its work; the message is one line for the table."""


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind((HOST, 0))
        port: int = sock.getsockname()[1]
        return port


def clean_environment() -> dict[str, str]:
    """Ours, without what would change how the peer's interpreter starts; PYTHONPATH names a tree."""
    ours = os.environ.items()
    return {key: value for key, value in ours if not key.startswith("PYTHON") or key == "PYTHONPATH"}


class Peer:
    """One broker. `start` only spawns it; entering the context also waits until it takes connections. Without
    a port of its own it gets a free one at every start."""

    name = "peer"
    takes_topic_configs = True
    ready_s = 60.0

    def __init__(self, port: int = 0) -> None:
        self.port = self._own_port = port
        self._folder = ""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def folder(self) -> str:
        """Where this start keeps its data, in `data`."""
        return self._folder

    @property
    def pid(self) -> int:
        self.check_alive()
        assert self._process is not None
        return self._process.pid

    def close(self) -> None:
        """Free what outlives a single start."""

    def command(self, folder: str) -> list[str]:
        """Make what the broker needs in `folder` and say how to run it. Not part of a start's time."""
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        return clean_environment()

    def prepare(self) -> None:
        """A fresh folder and port for the next `start`."""
        self._folder = tempfile.mkdtemp(prefix="ottla-bench-")
        self.port = self._own_port or free_port()
        self._command = self.command(self._folder)

    def start(self) -> None:
        with open(os.path.join(self._folder, "output"), "wb") as output:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._folder,
                env=self.environment(),
                start_new_session=True,
            )

    def stop(self) -> None:
        self.end()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def end(self, patience_s: float = STOP_S) -> None:
        """SIGTERM, and what does not help that; the folder stays, for another `start`."""
        process = self._process
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(patience_s)
            self.kill()

    def kill(self) -> None:
        """kill -9 to it and all its children; the folder stays."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def check_alive(self) -> None:
        if self._process is None or self._process.poll() is not None:
            raise PeerError(f"{self.name} ended: {self._last_words()}")

    def _last_words(self) -> str:
        with open(os.path.join(self._folder, "output"), errors="replace") as output:
            lines = [line.strip() for line in output if line.strip()]
        return lines[-1].replace(ROOT + os.sep, "")[:160] if lines else "it said nothing"

    def wait_ready(self) -> None:
        deadline = time.monotonic() + self.ready_s
        while time.monotonic() < deadline:
            self.check_alive()
            try:
                AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0}).list_topics(timeout=2)
            except KafkaException:
                time.sleep(0.1)
            else:
                return
        raise PeerError(f"{self.name} was not ready in {self.ready_s:.0f} s")

    def __enter__(self) -> Self:
        try:
            self.prepare()
            self.start()
            self.wait_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _processes(self) -> list[psutil.Process]:
        top = psutil.Process(self.pid)
        return [top, *top.children(recursive=True)]

    def cpu_seconds(self) -> float:
        total = 0.0
        for process in self._processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                total += times.user + times.system
        return total

    def memory_bytes(self) -> tuple[int, int]:
        """Resident (VmRSS) and unique (USS) bytes."""
        resident = unique = 0
        for process in self._processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                memory = process.memory_full_info()
                resident, unique = resident + memory.rss, unique + memory.uss
        return resident, unique

    def create_topic(self, topic: str, config: dict[str, str] | None = None, partitions: int = 1) -> None:
        """One replica. A peer without CreateTopics gets its topics on first use."""
        if not self.takes_topic_configs:
            return
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        try:
            wanted = NewTopic(topic, num_partitions=partitions, replication_factor=1, config=config or {})
            admin.create_topics([wanted], operation_timeout=60, request_timeout=70)[topic].result(80)
        except TimeoutError as error:
            raise PeerError(f"{self.name} did not answer CreateTopics") from error
        except KafkaException as error:
            raise PeerError(f"{self.name} did not create a topic: {error.args[0].str()}") from error

    def delete_topic(self, topic: str) -> None:
        """Free the disk for the next cell. A peer that cannot is none the worse for it."""
        if self.takes_topic_configs:
            admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
            with contextlib.suppress(KafkaException, TimeoutError):
                admin.delete_topics([topic], operation_timeout=10, request_timeout=15)[topic].result(20)


class Ottla(Peer):
    name = "Ottla"
    number = 1

    def __init__(self, settings: tuple[str, ...] = (), port: int = 0) -> None:
        super().__init__(port)
        self.settings = settings
        self.program: tuple[str, ...] = (os.path.join(os.path.dirname(sys.executable), "ottla"),)

    def environment(self) -> dict[str, str]:
        path = os.pathsep.join(filter(None, (ROOT, super().environment().get("PYTHONPATH"))))
        return super().environment() | ({"PYTHONPATH": path} if len(self.program) > 1 else {})

    def command(self, folder: str) -> list[str]:
        if not os.path.exists(self.program[0]):
            raise PeerError("Ottla is not installed beside this interpreter (make setup)")
        listen = ["--listen", self.bootstrap, "--data", os.path.join(folder, "data")]
        return [
            *self.program,
            "start",
            *listen,
            *(part for each in self.settings for part in ("--set", each)),
        ]


class MockCluster(Peer):
    """librdkafka's mock cluster in a process of its own, which chooses its own port and says so."""

    name = "mock (own process)"
    takes_topic_configs = False

    def command(self, _folder: str) -> list[str]:
        return [sys.executable, "-m", "bench.mock_server"]

    def start(self) -> None:
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
            start_new_session=True,
        )

    def wait_ready(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline().decode().strip()
        if not line:
            raise PeerError("the mock cluster did not start")
        self.port = int(line.rsplit(":", 1)[1])

    def stop(self) -> None:
        process = self._process
        super().stop()
        if process is not None and process.stdin is not None and process.stdout is not None:
            process.stdin.close()
            process.stdout.close()

    def _last_words(self) -> str:
        return "it said nothing"
