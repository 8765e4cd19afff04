"""`ottla start` as a process: ready, stopped, refused."""

import contextlib
import re
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

DEADLINE_S = 60.0
READY = re.compile(
    r"Ottla \S+ is ready at (\S+) · data (\S+) · node (\d+) · cluster (\S{22})"
    r"(?: · http://(?P<http>\S+))? · (?P<ms>\d+) ms\n"
)


def command(*arguments: str, python: tuple[str, ...] = ()) -> list[str]:
    patient = ("--set", "ottla.stall.threshold.ms=600000")  # a slow machine is no reason to say anything
    return [sys.executable, *python, "-m", "ottla.cli", "start", *patient, *arguments]


@contextlib.contextmanager
def started(
    *arguments: str, python: tuple[str, ...] = ()
) -> Iterator[tuple[subprocess.Popen[str], re.Match[str]]]:
    """A broker in a process of its own, killed at the end if it is still there."""
    process = subprocess.Popen(
        command(*arguments, python=python), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout
    assert process.stderr
    try:
        readable, _, _ = select.select([process.stdout], [], [], DEADLINE_S)
        line = process.stdout.readline() if readable else ""
        found = READY.fullmatch(line)
        if not found:
            process.kill()
        assert found, (line, process.stderr.read())
        yield process, found
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def produce(address: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": address})
    producer.produce("letters", value)
    assert producer.flush(DEADLINE_S) == 0


def consume(address: str, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "any", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition("letters", 0, 0)])
        return [message.value() for message in consumer.consume(count, DEADLINE_S)]
    finally:
        consumer.close()


def refused(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A start that must end by itself, with one line on stderr."""
    done = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.stdout == ""
    assert done.stderr.startswith("ottla: ")
    assert done.stderr.count("\n") == 1, done.stderr
    return done


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_broker_says_when_it_is_ready_serves_and_stops_cleanly(
    tmp_path: Path, number: signal.Signals
) -> None:
    """At the level warning it has nothing else to say; `test_start_log` has what it says by default."""
    arguments = ("--listen", "127.0.0.1:0", "--data", str(tmp_path / "d"), "--node-id", "7")
    with started(*arguments, "--log-level", "warning") as (process, ready):
        assert ready[2] == str(tmp_path / "d")
        assert ready[3] == "7"
        produce(ready[1], b"hello")
        process.send_signal(number)
        assert process.wait(DEADLINE_S) == 0
        assert process.stderr
        assert process.stderr.read() == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_restart_keeps_the_cluster_id_and_the_records(tmp_path: Path, number: signal.Signals) -> None:
    arguments = ("--listen", "0", "--data", str(tmp_path))
    with started(*arguments) as (process, first):
        assert first[1].startswith("127.0.0.1:")
        produce(first[1], b"hello")
        process.send_signal(number)
        process.wait(DEADLINE_S)
    with started(*arguments) as (_, second):
        assert second[4] == first[4]
        produce(second[1], b"again")
        assert consume(second[1], 2) == [b"hello", b"again"]


def test_the_start_loads_nothing_that_a_broker_does_not_need(tmp_path: Path) -> None:
    arguments = ("--listen", "127.0.0.1:0", "--data", str(tmp_path))
    with started(*arguments, python=("-X", "importtime")) as (process, _):
        process.terminate()
        process.wait(DEADLINE_S)
        assert process.stderr
        modules = {line.rpartition("|")[2].strip() for line in process.stderr}
    loaded = {module.partition(".")[0] for module in modules}
    assert "asyncio" in loaded
    assert not loaded & {"typer", "rich", "confluent_kafka", "difflib", "pydantic", "kazoo"}
    assert not loaded & {"cryptography", "joserfc", "h11", "prometheus_client"}
    assert "ottla.shell.connection" in modules
    # Nor what a broker without security does not need: of that room the keys, and names of things.
    secure = {module.rpartition(".")[2] for module in modules if module.startswith("ottla.security.")}
    assert secure - {"principals", "resources"} == {
        "authorizer_config", "oauth_config", "sasl_config", "tls_config",
    }  # fmt: skip
    assert not modules & {
        "ottla.api.gate", "ottla.api.refusals", "ottla.broker.authentication", "ottla.broker.usage",
        "ottla.shell.arrivals", "ottla.shell.handshakes", "ottla.shell.tls",
        "ottla.broker.metrics", "ottla.shell.http", "ottla.shell.metrics",
    }  # fmt: skip


def test_a_second_broker_on_the_same_data_is_refused(tmp_path: Path) -> None:
    with started("--listen", "127.0.0.1:0", "--data", str(tmp_path)) as (process, _):
        done = refused("--listen", "127.0.0.1:0", "--data", str(tmp_path))
        assert done.returncode == 1
        assert f"is in use by another broker (process {process.pid})" in done.stderr
        assert "--data" in done.stderr


def test_a_data_folder_of_another_broker_is_refused(tmp_path: Path) -> None:
    with started("--listen", "127.0.0.1:0", "--data", str(tmp_path), "--node-id", "1") as (process, _):
        process.terminate()
        process.wait(DEADLINE_S)
    done = refused("--listen", "127.0.0.1:0", "--data", str(tmp_path), "--node-id", "2")
    assert done.returncode == 1
    assert "belongs to broker 1" in done.stderr


def test_a_port_in_use_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = refused("--listen", address, "--data", str(tmp_path))
    assert done.returncode == 1
    assert f"cannot listen on {address}" in done.stderr


def test_a_data_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    done = refused("--data", str(path))
    assert done.returncode == 1
    assert f"cannot use {path} as a data directory" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--set", "log.segment.bytes=many"), "log.segment.bytes: 'many' is not a valid int"),
        (("--set", "compression.type=zip"), "compression.type: must be one of"),
        (("--set", "offsets.retention.minutes=long"), "offsets.retention.minutes: 'long' is not a valid int"),
        (("--set", "nothing"), "--set takes KEY=VALUE, not 'nothing'"),
        (("--node-id", "x"), "broker.id: 'x' is not a valid int"),
        (("--listen", "nowhere"), "listeners: 'PLAINTEXT://nowhere' is not HOST:PORT"),
        (("--listen", "127.0.0.1:80000"), "--listen 127.0.0.1:80000: the port is out of range"),
        (("--listen", "SSL://127.0.0.1:0"), "listener SSL: ssl.keystore.location: a listener with TLS needs"),
        (("--config", "/no/such/file"), "cannot read the config file /no/such/file"),
        (("--log-level", "loud"), "--log-level is one of"),
        (("--log-format", "xml"), "--log-format is one of text, json, not 'xml'"),
    ],
)
def test_a_wrong_value_is_one_line_that_names_the_key(
    tmp_path: Path, arguments: tuple[str, ...], complaint: str
) -> None:
    done = refused("--data", str(tmp_path), *arguments)
    assert done.returncode == 2
    assert complaint in done.stderr


def test_a_start_that_cannot_say_that_it_is_ready_stops_with_one_line(tmp_path: Path) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            command("--listen", "127.0.0.1:0", "--data", str(tmp_path), "--log-level", "warning"),
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=DEADLINE_S,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (
        1, "ottla: cannot write the output: No space left on device\n",
    )  # fmt: skip


def test_an_unknown_key_is_a_warning_with_the_nearest_names(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("log.retention.hous=1\nnum.network.threads = 8\n")
    with started("--listen", "127.0.0.1:0", "--data", str(tmp_path / "d"), "--config", str(path)) as (
        process,
        _,
    ):
        process.terminate()
        assert process.wait(DEADLINE_S) == 0
        assert process.stderr
        said = process.stderr.read()
    assert "'log.retention.hous' is not known and is ignored; did you mean log.retention.hours" in said
    assert "these keys of Kafka have no effect here: num.network.threads\n" in said
