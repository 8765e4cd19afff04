"""`ottla verify` over directories that a broker left, whole and damaged."""

import json
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from ottla import Broker
from ottla.cli.storage import read_only_files
from ottla.cli.storage import verify as command

FIRST = "00000000000000000000"


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a broker left that stopped cleanly: a topic with several segments."""
    data = tmp_path_factory.mktemp("left") / "data"
    with Broker(data=data) as broker:
        broker.create_topic("letters", config={"segment.bytes": "550", "index.interval.bytes": "1"})
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        for number in range(6):
            producer.produce("letters", f"value {number} " + "x" * 100, f"key {number}")
            assert producer.flush(20) == 0
    return data


@pytest.fixture
def data(left: Path, tmp_path: Path) -> Path:
    return shutil.copytree(left, tmp_path / "data")


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 0xFF
    path.write_bytes(content)


def test_a_sound_directory_is_one_line_and_exit_code_0(run: Any, data: Path) -> None:
    before = {path: path.stat() for path in data.rglob("*")}
    outcome = run("verify", str(data))
    assert outcome.code == 0, outcome.out
    assert outcome.out.startswith("nothing to report: 1 partition, 2 segments, 6 batches, 6 records, ")
    assert {path: path.stat().st_mtime_ns for path in data.rglob("*")} == {
        path: stat.st_mtime_ns for path, stat in before.items()
    }


def test_damage_is_named_with_file_byte_and_offset_and_exit_code_1(run: Any, data: Path) -> None:
    log = data / "letters-0" / f"{FIRST}.log"
    flip(log, 70)
    (data / "notes").write_text("mine")
    outcome = run("verify", str(data))
    assert outcome.code == 1
    served = "the broker does not look there and serves the batch; consumers that check checksums refuse it"
    assert outcome.out.splitlines()[:-1] == [
        f"error: {log}, at byte 0, offset 0: the checksum of the batch is wrong. At start: {served}.",
        f"note: {data / 'notes'}: nothing that a broker writes. At start: it is ignored.",
    ]
    assert outcome.out.splitlines()[-1].startswith("1 error, 1 note: ")
    assert run("verify", "--quick", str(data)).code == 0


def test_warnings_and_notes_are_not_an_error(run: Any, data: Path) -> None:
    flip(data / "letters-0" / f"{FIRST}.index", 0)
    outcome = run("verify", str(data))
    assert (outcome.code, outcome.out.split(":", 1)[0]) == (0, "warning")


def test_json_is_one_finding_per_line_and_a_summary(run: Any, data: Path) -> None:
    flip(data / "letters-0" / f"{FIRST}.log", 70)
    found, summary = map(json.loads, run("verify", "--json", str(data)).out.splitlines())
    assert (found["severity"], found["position"], found["offset"]) == ("error", 0, 0)
    assert set(found) == {"severity", "path", "problem", "at_start", "position", "offset"}
    assert summary["summary"] == {"error": 1, "warning": 0, "note": 0}
    assert (summary["partitions"], summary["records"]) == (1, 6)


def test_a_directory_in_use_is_refused(run: Any, tmp_path: Path) -> None:
    with Broker(data=tmp_path) as broker:
        broker.create_topic("t")
        outcome = run("verify", str(tmp_path))
        assert (outcome.code, outcome.out) == (2, "")
        assert outcome.err.startswith(f"ottla: {tmp_path} is in use (process {os.getpid()}); stop that")
    assert run("verify", str(tmp_path)).code == 0


def test_a_directory_in_use_by_apache_kafka_is_refused(run: Any, data: Path) -> None:
    """Java takes a record lock, and writes no process id."""
    take = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX)"
    hold = f"{take}; print(1, flush=True); input()"
    holder = subprocess.Popen(
        [sys.executable, "-c", hold, str(data / ".lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        outcome = run("verify", str(data))
        assert outcome.code == 2
        assert "is in use (process unknown)" in outcome.err
    finally:
        holder.communicate(b"\n", timeout=20)


@pytest.mark.parametrize("name", ["missing", "empty", "data/letters-0"])
def test_what_is_no_data_directory_is_a_mistake(run: Any, data: Path, name: str) -> None:
    (data.parent / "empty").mkdir()
    outcome = run("verify", str(data.parent / name))
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"ottla: {data.parent / name} ")
    assert outcome.err.count("\n") == 1


def test_a_terminal_sees_how_far_it_is(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "SHOW_PROGRESS_BYTES", 1)
    with command._progress([str(data)]) as quiet:
        quiet(5)
    assert capsys.readouterr().err == ""
    controller, terminal = pty.openpty()
    with os.fdopen(terminal, "w") as screen:
        monkeypatch.setattr(sys, "stderr", screen)
        with command._progress([str(data)]) as on_read:
            on_read(2 << 20)
    shown = ""
    while "/" not in shown:  # it comes in pieces
        shown += os.read(controller, 65536).decode()
    os.close(controller)


def test_files_are_only_read(tmp_path: Path) -> None:
    files = read_only_files.ReadOnlyFiles()
    with pytest.raises(FileNotFoundError):
        files.open(str(tmp_path / "new"))
    assert list(tmp_path.iterdir()) == []
    assert read_only_files.user_of(str(tmp_path)) is None
