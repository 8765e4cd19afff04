"""systemd hears when a broker is ready, that it lives, and that it stops."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.shell.systemd import Systemd

WITHIN_S = 60.0


@pytest.fixture
def heard(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(str(tmp_path / "notify"))
        channel.settimeout(WITHIN_S)
        yield channel


def next_state(heard: socket.socket) -> str:
    return heard.recv(4_096).decode()


def test_a_broker_says_that_it_lives_is_ready_and_stops(heard: socket.socket, tmp_path: Path) -> None:
    environment = os.environ | {"NOTIFY_SOCKET": heard.getsockname(), "WATCHDOG_USEC": "100000"}
    environment.pop("WATCHDOG_PID", None)
    start = ["start", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "d")]
    broker = subprocess.Popen(
        [sys.executable, "-m", "ottla.cli", *start], env=environment, stdout=subprocess.DEVNULL
    )
    try:
        assert next_state(heard) == "WATCHDOG=1"  # before its logs are recovered
        while (state := next_state(heard)) == "WATCHDOG=1":
            pass
        assert state.startswith("READY=1\nSTATUS=serving at 127.0.0.1:")
        assert [next_state(heard) for _ in range(3)] == ["WATCHDOG=1"] * 3
        broker.terminate()
        while (state := next_state(heard)) == "WATCHDOG=1":
            pass
        assert state == "STOPPING=1"
        assert broker.wait(WITHIN_S) == 0
    finally:
        broker.kill()
        broker.wait()


def said(environment: dict[str, str], heard: socket.socket) -> list[str]:
    """What is heard of one that begins."""

    async def begin() -> None:
        Systemd(environment).on_begun()

    asyncio.run(begin())
    heard.setblocking(False)
    states = []
    try:
        while True:
            states.append(next_state(heard))
    except BlockingIOError:
        return states


def test_signs_of_life_are_given_by_the_process_that_they_are_wanted_of(heard: socket.socket) -> None:
    environment = {"NOTIFY_SOCKET": heard.getsockname(), "WATCHDOG_USEC": "1000000"}
    assert said(environment, heard) == ["WATCHDOG=1"]
    assert said(environment | {"WATCHDOG_PID": str(os.getpid())}, heard) == ["WATCHDOG=1"]
    assert said(environment | {"WATCHDOG_PID": "1"}, heard) == []
    assert said(environment | {"WATCHDOG_USEC": "0"}, heard) == []
    assert said({"NOTIFY_SOCKET": heard.getsockname()}, heard) == []
    assert said({}, heard) == []


def test_an_abstract_socket_is_told_and_one_that_is_gone_costs_a_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    name = f"ottla-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(f"\0{name}")
        channel.settimeout(WITHIN_S)
        Systemd({"NOTIFY_SOCKET": f"@{name}"}).on_ready("well")
        assert next_state(channel) == "READY=1\nSTATUS=well"
    Systemd({"NOTIFY_SOCKET": f"@{name}"}).on_ready("well")
    assert "systemd cannot be told READY=1: " in caplog.text
