"""What `ottla start` logs by default: a line an event, that an operator wants, as text or as JSON."""

import json
import os
import pty
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from tests.cli.test_start import DEADLINE_S, READY, command, consume, produce, started
from tests.kafka_clients.wire_client import Wire

from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}"
LINE = re.compile(TIME + r"[+-]\d\d:\d\d (DEBUG|INFO|WARNING|ERROR|CRITICAL) +[\w.]+: (\S.*)\n")
HOSTILE = "cli\n2026-11-17T00:00:00.000+00:00 ERROR    ottla: forged\x1b[2J"
STARTED = (
    r"broker 7 has started in \d+ ms: locks and listeners \d+ ms, keeper \d+ ms, logs \d+ ms, "
    r"registration \d+ ms; Ottla \S+ on Python \S+, process \d+, 0 partitions"
)
STOPPED = r"broker 7 has stopped in \d+ ms: connections \d+ ms, logs \d+ ms, keeper \d+ ms"


def arguments(folder: Path, *more: str) -> tuple[str, ...]:
    return ("--listen", "127.0.0.1:0", "--data", str(folder), "--node-id", "7", *more)


def rest(process: "subprocess.Popen[str]", number: int = signal.SIGTERM) -> list[str]:
    """Stop it; all that it has said on stderr."""
    process.send_signal(number)
    assert process.wait(DEADLINE_S) == 0
    assert process.stderr
    return process.stderr.readlines()


def change_settings(address: str, client: str) -> None:
    admin = AdminClient({"bootstrap.servers": address, "client.id": client})
    entry = ConfigEntry("retention.ms", "77777", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, "letters", incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(DEADLINE_S)


def test_every_line_of_text_parses_and_says_something_new(tmp_path: Path) -> None:
    with started(*arguments(tmp_path)) as (process, ready):
        produce(ready[1], b"hello")
        for _ in range(3):
            assert consume(ready[1], 1) == [b"hello"]
        change_settings(ready[1], HOSTILE)
        lines = rest(process)
    parsed = [LINE.fullmatch(line) for line in lines]
    assert all(parsed), lines
    said = [(match[1], match[2]) for match in parsed if match]
    assert len(set(said)) == len(said), "no line twice"
    assert {level for level, _ in said} == {"INFO"}, said
    sentences = [sentence for _, sentence in said]
    assert re.fullmatch(STARTED, sentences[0])
    assert "broker 7 stops" in sentences
    assert not [sentence for sentence in sentences if sentence.startswith("{")], (
        "no audit without an authorizer"
    )
    assert re.fullmatch(STOPPED, sentences[-1])
    (changed,) = [sentence for sentence in sentences if "settings" in sentence]
    assert changed.startswith(r"settings of topic letters are changed by client 'cli\n2026-11-17")
    assert changed.endswith(r"forged\x1b[2J': retention.ms")
    assert not [sentence for sentence in sentences if "connection" in sentence.partition(":")[0]]


def objects(lines: list[str]) -> list[dict[str, Any]]:
    parsed = [json.loads(line) for line in lines]
    for line in parsed:
        assert re.fullmatch(TIME + "Z", line["time"])
        assert {"level", "logger", "message"} <= line.keys()
    return parsed


def test_every_line_is_json_if_asked_for(tmp_path: Path) -> None:
    with started(*arguments(tmp_path, "--log-format", "json"), python=("-W", "always")) as (process, ready):
        produce(ready[1], b"hello")
        change_settings(ready[1], HOSTILE)
        lines = objects(rest(process))
    assert {line["broker"] for line in lines} == {7}
    assert re.fullmatch(STARTED, lines[0]["message"])
    assert lines[0]["steps_ms"].keys() == {"locks and listeners", "keeper", "logs", "registration"}
    assert abs(sum(lines[0]["steps_ms"].values()) - lines[0]["took_ms"]) <= 3
    (changed,) = [line for line in lines if "settings" in line]
    assert (changed["client"], changed["topic"]) == (HOSTILE, "letters")
    assert re.fullmatch(STOPPED, lines[-1]["message"])


@pytest.mark.parametrize(
    ("wrong", "code", "said"),
    [
        (("--set", "log.retention.ms=x"), 2, "log.retention.ms: 'x' is not a valid long"),
        (("--config", "/nowhere.properties"), 2, "/nowhere.properties"),
        (("--data", "/proc/nowhere"), 1, "cannot use /proc/nowhere as a data directory"),
    ],
)
def test_why_a_start_failed_is_json_as_well(
    tmp_path: Path, wrong: tuple[str, ...], code: int, said: str
) -> None:
    given = command(*arguments(tmp_path, "--log-format", "json"), *wrong)
    done = subprocess.run(given, capture_output=True, text=True, timeout=DEADLINE_S)
    (line,) = objects(done.stderr.splitlines())
    assert (done.returncode, line["level"]) == (code, "CRITICAL")
    assert said in line["message"]


def test_a_start_after_a_crash_says_so(tmp_path: Path) -> None:
    with started(*arguments(tmp_path)) as (process, ready):
        produce(ready[1], b"hello")
        process.kill()
        process.wait()
    with started(*arguments(tmp_path)) as (process, _):
        said = rest(process)
    assert any(line.endswith("1 partitions, after a stop that was not clean\n") for line in said), said
    with started(*arguments(tmp_path)) as (process, _):
        assert rest(process)[0].endswith(" 1 partitions\n")


def send_nonsense(address: str) -> None:
    """For which the broker hangs up."""
    with Wire(int(address.rpartition(":")[2])) as wire:
        wire.send_bytes(b"GET / HTTP/1.1\r\n\r\n")
        assert wire.is_closed_by_peer()


def test_debug_shows_connections(tmp_path: Path) -> None:
    with started(*arguments(tmp_path, "--log-level", "debug")) as (process, ready):
        send_nonsense(ready[1])
        lines = rest(process)
    assert all(LINE.fullmatch(line) for line in lines)
    assert any(" DEBUG " in line and "connection from 127.0.0.1 closed: " in line for line in lines)


def test_the_level_of_a_logger_can_be_changed_while_it_runs(tmp_path: Path) -> None:
    with started(*arguments(tmp_path)) as (process, ready):
        send_nonsense(ready[1])
        change = AlterableConfig(name="ottla.shell.connection", config_operation=0, value="DEBUG")
        resource = AlterConfigsResource(resource_type=8, resource_name="7", configs=[change])
        with Wire(int(ready[1].rpartition(":")[2])) as wire:
            answer = wire.call(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
        assert not answer.responses[0].error_code
        send_nonsense(ready[1])
        lines = rest(process)
    assert any("the log level of ottla.shell.connection is now DEBUG" in line for line in lines)
    assert sum(" DEBUG " in line and " closed: " in line for line in lines) == 1


def test_on_a_terminal_the_lines_are_the_same(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command(*arguments(tmp_path)), stdout=subprocess.PIPE, stderr=theirs, text=True
    )
    try:
        os.close(theirs)
        assert process.stdout
        assert READY.fullmatch(process.stdout.readline())
        process.terminate()
        said = b""
        while b"has stopped" not in said:
            said += os.read(ours, 4096)
        assert process.wait(DEADLINE_S) == 0
    finally:
        process.kill()
        process.wait()
        assert process.stdout
        process.stdout.close()
        os.close(ours)
    lines = said.decode().replace("\r\n", "\n").splitlines(keepends=True)
    assert len(lines) >= 3
    assert all(LINE.fullmatch(line) for line in lines), lines
