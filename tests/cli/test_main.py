"""The door: help, version, mistakes, and the two readers of `ottla start` that must agree."""

import glob
import json
import os
import pathlib
import shlex
import socket
import subprocess
import sys
from typing import Any

import pytest
import typer.main

from ottla import Broker, __version__
from ottla.base.command_error import CommandError
from ottla.cli.app import app
from ottla.cli.broker.process import OPTIONS, StartOptions, properties_of, read_plainly

COMMANDS = [
    ("start",), ("demo",), ("dump",), ("produce",), ("consume",),
    ("topics",), ("topics", "create"), ("topics", "list"), ("topics", "describe"), ("topics", "alter"),
    ("topics", "delete"), ("configs",), ("configs", "describe"), ("configs", "set"), ("configs", "delete"),
    ("groups",), ("groups", "list"), ("groups", "describe"), ("groups", "reset"), ("groups", "delete"),
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(run: Any, command: tuple[str, ...]) -> None:
    outcome = run(*command, "--help")
    assert outcome.code == 0
    assert f"Usage: ottla {' '.join(command)}" in outcome.out
    if len(command) == 2 or command[0] in ("start", "dump", "produce", "consume"):
        assert f"  ottla {' '.join(command)} " in outcome.out


def test_the_version_is_the_version_of_the_package(run: Any) -> None:
    assert run("--version").out == f"ottla {__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("start", "--nonsense"),
        ("start", "--listen"),
        ("topics", "create"),
        ("consume",),
        ("produce", "t", "--acks", "2"),
        ("produce", "t", "--compression", "zip"),
        ("produce", "t", "--json", "--null", "x"),
        ("produce", "t", "/no/such/file"),
        ("produce", "t", "--key-column", "id"),
        ("produce", "t", "--csv", "-K", ":"),
        ("produce", "t", "-Z", "--null", "x"),
        ("produce", "t", "-D", ""),
        ("produce", "t", "--value-format", "avro"),
        ("produce", "t", "--registry", "http://127.0.0.1:1"),
        ("consume", "t", "--follow", "-e"),
        ("consume", "t", "--last", "3", "-o", "3"),
        ("consume", "t", "--last", "3", "--follow"),
        ("consume", "t", "--until", "1h", "--follow"),
        ("consume", "t", "--since", "5m", "--until", "10m"),
        ("consume", "t", "-f", "%q"),
        ("consume", "t", "-f", "%s", "--json"),
        ("consume", "t", "--filter", "colour=red"),
        ("consume", "t", "--value-format", "morse"),
        ("completion", "tcsh"),
        ("profile", "add", "here"),
        ("profile", "use", "nowhere"),
        ("consume", "t", "--offset", "first"),
        ("consume", "t", "--since", "soon"),
        ("consume", "t", "--format", "xml"),
        ("consume", "t", "--from-beginning", "--offset", "3"),
        ("configs", "describe"),
        ("configs", "describe", "--topic", "t", "--broker", "1"),
        ("configs", "set", "--topic", "t", "retention.ms"),
        ("topics", "alter", "t"),
        ("groups", "list", "--state", "happy"),
        ("groups", "list", "--type", "share"),
        ("groups", "describe"),
        ("groups", "reset", "g", "--topic", "t"),
        ("groups", "delete", "g", "--topic", "t:x"),
        ("topics", "list", "--bootstrap", "localhost"),
        ("dump", "letter.txt"),
    ],
)
def test_a_mistake_in_the_arguments_leaves_with_2(run: Any, arguments: tuple[str, ...]) -> None:
    outcome = run(*arguments)
    assert outcome.code == 2
    assert outcome.err.strip()
    assert outcome.out == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ("topics", "list"),
        ("topics", "create", "t"),
        ("configs", "describe", "--topic", "t"),
        ("groups", "list"),
        ("groups", "reset", "g", "--topic", "t", "--to-latest"),
        ("consume", "t", "--group", "g"),
        ("produce", "t"),
        ("consume", "t"),
    ],
)
def test_a_broker_that_does_not_answer_is_one_line(run: Any, arguments: tuple[str, ...]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        outcome = run(*arguments, "--bootstrap", address)
    assert outcome.code == 1
    assert outcome.err.startswith(f"ottla: no broker answers at {address} (Connection refused)")
    assert outcome.err.count("\n") == 1


def test_something_that_is_no_broker_is_one_line(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.client.admin.requests.REQUEST_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        outcome = run("topics", "list", "--bootstrap", f"127.0.0.1:{silent.getsockname()[1]}")
    assert outcome.code == 1
    assert "no broker can be reached" in outcome.err
    assert outcome.err.count("\n") == 1


def test_the_quick_reader_knows_the_options_that_typer_knows() -> None:
    command = typer.main.get_command(app).commands["start"]  # type: ignore[attr-defined]
    declared = {option for param in command.params for option in param.opts} - {"-h", "--help"}
    assert set(OPTIONS) == declared


def test_the_quick_reader_takes_plain_arguments_and_leaves_the_rest_to_typer() -> None:
    given = ["--listen", "h:1", "--data=d", "--set", "a=b", "--set=c=d", "--node-id", "3", "--log-level=info"]
    plain = StartOptions(listen="h:1", data="d", node_id="3", set=["a=b", "c=d"], log_level="info")
    assert read_plainly(given) == plain
    joining = read_plainly(["--zookeeper", "zk:2181/x", "--id", "2", "--rack=r"])
    assert joining == StartOptions(node_id="2", zookeeper="zk:2181/x", rack="r")
    assert read_plainly([]) == StartOptions()
    for other in (
        ["--help"],
        ["-h"],
        ["--listen"],
        ["--listen", "--data"],
        ["x"],
        ["--listen="],
        ["--lis", "h:1"],
    ):
        assert read_plainly(other) is None


def test_an_option_goes_over_set_and_set_over_the_file(tmp_path: Any) -> None:
    path = tmp_path / "server.properties"
    path.write_text("node.id=1\nlog.dir=/a\nnum.partitions=1\nlog.retention.hours=1\n")
    settings = ["log.dirs=/b", "num.partitions=2", "log.retention.ms=5"]
    options = StartOptions(config=str(path), set=settings, data="/c", listen="[::1]:0")
    assert properties_of(options) == {
        "node.id": "1",
        "num.partitions": "2",
        "log.retention.ms": "5",
        "log.dirs": "/c",
        "listeners": "PLAINTEXT://[::1]:0",
    }
    with pytest.raises(CommandError):
        properties_of(StartOptions(set=["a"]))


def process(*arguments: str | bytes, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """A command in a process of its own, where the streams are real."""
    return subprocess.run(
        [sys.executable, "-m", "ottla.cli", *arguments], stderr=subprocess.PIPE, timeout=30, **options
    )


@pytest.mark.parametrize("command", ["list", "json", "consume", "dump", "help"])
def test_a_disk_that_is_full_is_one_line(
    command: str, ottla_broker: Broker, ottla_topic: str, ottla: Any
) -> None:
    ottla("produce", ottla_topic, stdin=b"hello\n")
    (log,) = glob.glob(f"{glob.escape(ottla_broker.data)}/{ottla_topic}-0/*.log")
    arguments = {
        "list": ("topics", "list"),
        "json": ("topics", "list", "--json"),
        "consume": ("consume", ottla_topic),
        "dump": ("dump", "--records", log),
        "help": ("--help",),
    }[command]
    environment = {**os.environ, "OTTLA_BOOTSTRAP": ottla_broker.bootstrap_servers}
    with open("/dev/full", "wb") as full:
        done = process(*arguments, stdout=full, env=environment)
    assert (done.returncode, done.stderr) == (
        1, b"ottla: cannot write the output: No space left on device\n",
    )  # fmt: skip


@pytest.mark.parametrize(
    "arguments", [("topics", "create", b"\xff"), ("consume", b"\xff"), ("start", b"\xff")]
)
def test_an_argument_that_is_no_text_is_one_line(arguments: tuple[str | bytes, ...]) -> None:
    done = process(*arguments, stdout=subprocess.PIPE)
    assert (done.returncode, done.stdout, done.stderr) == (
        2, b"", b"ottla: the argument '\\udcff' is not UTF-8 text\n",
    )  # fmt: skip


def test_a_terminal_that_knows_only_ascii_is_no_reason_to_fail(
    ottla: Any, ottla_broker: Broker, ottla_topic: str
) -> None:
    ottla("produce", ottla_topic, stdin="Grüße".encode())
    (log,) = glob.glob(f"{glob.escape(ottla_broker.data)}/{ottla_topic}-0/*.log")
    environment = {
        **os.environ, "OTTLA_BOOTSTRAP": ottla_broker.bootstrap_servers, "PYTHONIOENCODING": "ascii",
    }  # fmt: skip
    shown = {
        name: process(*arguments, stdout=subprocess.PIPE, env=environment)
        for name, arguments in {
            "describe": ("topics", "describe", ottla_topic),
            "consume": ("consume", ottla_topic),
            "dump": ("dump", "--records", log),
            "json": ("dump", "--records", "--json", log),
        }.items()
    }
    assert [(done.returncode, done.stderr) for done in shown.values()] == [(0, b"")] * 4
    assert shown["consume"].stdout == "Grüße\n".encode()
    assert b"value 'Gr\\xfc\\xdfe'" in shown["dump"].stdout
    assert json.loads(shown["json"].stdout)["value"] == "Grüße"


def test_streams_that_are_closed_are_no_reason_to_fail(ottla_broker: Broker, ottla_topic: str) -> None:
    environment = {**os.environ, "OTTLA_BOOTSTRAP": ottla_broker.bootstrap_servers}
    line = f"exec {shlex.quote(sys.executable)} -m ottla.cli topics list <&- >&- 2>&-"
    assert subprocess.run(["bash", "-c", line], env=environment, timeout=30).returncode == 0


def test_listen_goes_with_the_address_that_clients_are_told(tmp_path: pathlib.Path) -> None:
    """The file's would lead them to where nobody listens."""
    file = tmp_path / "server.properties"
    file.write_text("listeners=PLAINTEXT://:9092\nadvertised.listeners=PLAINTEXT://elsewhere:9092\n")
    options = StartOptions(listen="127.0.0.1:29500", config=str(file))
    assert "advertised.listeners" not in properties_of(options)
    both = StartOptions(listen="127.0.0.1:29500", advertise="here:1", config=str(file))
    assert properties_of(both)["advertised.listeners"] == "PLAINTEXT://here:1"
    of_set = StartOptions(
        listen="127.0.0.1:29500", set=["advertised.listeners=PLAINTEXT://proxy:2"], config=str(file)
    )
    assert properties_of(of_set)["advertised.listeners"] == "PLAINTEXT://proxy:2"
