"""Commands run in the process, with streams of their own; for the tests of products that they start, too."""

import io
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
from tests.support.terminals import shown_on_a_terminal

from ottla import Broker
from ottla.base.command_error import CommandError
from ottla.cli import main
from ottla.client.properties import ClientProperties


@dataclass
class Outcome:
    code: int
    out: str
    err: str
    raw: bytes


Run = Callable[..., Outcome]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `ottla` with arguments and stdin; what it wrote and its exit code."""
    monkeypatch.setenv("COLUMNS", "160")
    for name in ("OTTLA_BOOTSTRAP", "OTTLA_CONFIG", "OTTLA_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", os.devnull)  # where nobody has a profile

    def run(*arguments: str, stdin: bytes = b"") -> Outcome:
        out, err = io.BytesIO(), io.BytesIO()
        code = 0
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
            patch.setattr(sys, "stdout", io.TextIOWrapper(out, write_through=True))
            patch.setattr(sys, "stderr", io.TextIOWrapper(err, write_through=True))
            try:
                main(list(arguments))
            except SystemExit as leaving:
                code = int(leaving.code or 0)
            sys.stdout.flush()
            raw, errors = out.getvalue(), err.getvalue()
        assert b"Traceback" not in errors, errors.decode()
        return Outcome(code, raw.decode(errors="replace"), errors.decode(), raw)

    return run


def consumer_settings(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The settings of the consumer that the next command makes; it gets no further than that."""
    given: dict[str, str] = {}

    def consumer(where: ClientProperties, defaults: dict[str, str], settings: dict[str, str]) -> None:
        given.update(defaults | where.others | settings)
        raise CommandError("no further")

    monkeypatch.setattr("ottla.client.librdkafka.connections.consumer", consumer)
    return given


@dataclass
class Running:
    """A command in a process of its own."""

    process: subprocess.Popen[str]

    def line(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline()

    def interrupt(self) -> tuple[int, str, str]:
        """Press Ctrl-C: its exit code, and what it wrote since."""
        self.process.send_signal(signal.SIGINT)
        rest, errors = self.process.communicate(timeout=20)
        return self.process.returncode, rest, errors.strip()


@contextmanager
def running(*arguments: str) -> Iterator[Running]:
    """`ottla` in a process of its own, which is gone afterwards."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ottla.cli", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    watchdog = threading.Timer(90, process.kill)
    watchdog.start()
    try:
        yield Running(process)
    finally:
        watchdog.cancel()
        process.kill()
        process.communicate()


def on_a_terminal(*arguments: str) -> str:
    """What `ottla` shows where its output is a terminal."""
    command = [sys.executable, "-m", "ottla.cli", *arguments]
    return shown_on_a_terminal(command, stream="stdout", columns=150, within_s=20)


@pytest.fixture
def ottla(run: Run, ottla_broker: Broker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """The same, with a broker to talk to."""
    monkeypatch.setenv("OTTLA_BOOTSTRAP", ottla_broker.bootstrap_servers)
    return run
