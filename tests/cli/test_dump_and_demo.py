"""`ottla dump` over what a broker wrote, whole and damaged; and the demo."""

import glob
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from ottla import Broker

HEADER_BYTES = 61


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a partition with two segments and three batches, left by a broker that stopped cleanly."""
    data = tmp_path_factory.mktemp("data")
    with Broker(data=data) as broker:
        broker.create_topic("letters", config={"segment.bytes": "550", "index.interval.bytes": "1"})
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
        for text in (b"first", b"x" * 300, b"\xff"):
            producer.produce(
                "letters", text, b"key", headers=[("from", b"Ottla")], timestamp=1_700_000_000_123
            )
            assert producer.flush(20) == 0
    return data / "letters-0"


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    """The first segment, to be damaged."""
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes((folder / path.name).read_bytes())
    return path


def logs(folder: Path) -> list[str]:
    return sorted(glob.glob(f"{folder}/*.log"))


def test_batches_are_shown_with_their_place(run: Any, folder: Path) -> None:
    assert len(logs(folder)) == 2
    outcome = run("dump", logs(folder)[0])
    assert outcome.code == 0, outcome.err
    first = outcome.out.splitlines()[0]
    assert first.startswith("position 0 · base_offset 0 · last_offset 0 · count 1 · ")
    assert "crc_ok yes" in first
    assert outcome.out.splitlines()[-1].endswith(f"records, {os.path.getsize(logs(folder)[0])} bytes")


def test_records_are_shown_with_all_that_is_in_them(run: Any, folder: Path) -> None:
    outcome = run("dump", "--records", *logs(folder))
    assert "  offset 0 · 2023-11-14T22:13:20.123Z · key 'key' · value 'first' · from='Ottla'" in outcome.out
    assert "value ff" in outcome.out
    assert "… (300 bytes)" in outcome.out


def test_json_is_one_object_per_batch_or_per_record(run: Any, folder: Path) -> None:
    batches = [json.loads(line) for line in run("dump", "--json", *logs(folder)).out.splitlines()]
    assert [one["base_offset"] for one in batches] == [0, 1, 2]
    assert all(one["crc_ok"] and one["producer_id"] >= 0 for one in batches)
    records = [
        json.loads(line) for line in run("dump", "--json", "--records", *logs(folder)).out.splitlines()
    ]
    assert [(one["topic"], one["partition"], one["offset"]) for one in records] == [
        ("letters", 0, 0), ("letters", 0, 1), ("letters", 0, 2),
    ]  # fmt: skip
    assert records[2]["value"] == {"base64": "/w=="}


def test_indexes_and_snapshots_are_shown(run: Any, folder: Path) -> None:
    files = [name for kind in ("index", "timeindex", "snapshot") for name in glob.glob(f"{folder}/*.{kind}")]
    outcome = run("dump", *files)
    assert outcome.code == 0, outcome.err
    assert "timestamp 1700000000123 · time 2023-11-14T22:13:20.123Z · offset 0" in outcome.out
    assert "last_sequence 2" in outcome.out


def test_a_torn_tail_is_reported_with_its_place_after_what_is_whole(run: Any, copy: Path) -> None:
    whole = run("dump", str(copy)).out.splitlines()[:-1]
    size = copy.stat().st_size
    with copy.open("ab") as file:
        file.write(copy.read_bytes()[: HEADER_BYTES + 3])
    outcome = run("dump", str(copy))
    assert outcome.code == 1
    assert outcome.out.splitlines()[:-1] == whole
    assert outcome.err.startswith(f"ottla: {copy}: at byte {size} of {size + HEADER_BYTES + 3}: a batch of ")


def test_a_wrong_checksum_is_reported_and_the_rest_is_shown(run: Any, copy: Path) -> None:
    content = bytearray(copy.read_bytes())
    content[HEADER_BYTES + 2] ^= 0xFF
    copy.write_bytes(content)
    outcome = run("dump", "--records", str(copy))
    assert outcome.code == 1
    assert f"ottla: {copy}: at byte 0: the checksum of the batch is wrong" in outcome.err
    assert "crc_ok NO" in outcome.out


@pytest.mark.parametrize("name", ["1.log", "1.index", "1.timeindex", "1.snapshot"])
def test_garbage_is_reported_and_not_a_traceback(run: Any, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"this is not what it says it is: " * 7 + b"!")
    outcome = run("dump", "--records", str(path))
    assert outcome.code == 1
    assert outcome.err.startswith(f"ottla: {path}: ")


def test_a_file_that_is_not_there_is_one_line_and_is_not_created(run: Any, tmp_path: Path) -> None:
    outcome = run("dump", str(tmp_path / "0.log"))
    assert (outcome.code, outcome.err) == (
        1,
        f"ottla: cannot read {tmp_path}/0.log: No such file or directory\n",
    )
    assert list(tmp_path.iterdir()) == []


def test_the_demo_shows_the_main_job_and_leaves_nothing_behind(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    outcome = run("demo", "--records", "2000", "--no-spark")
    assert outcome.code == 0, outcome.err
    assert "2,000 records with keys and headers were acknowledged" in outcome.out
    assert "2,200 records came back, every partition in order" in outcome.out
    assert "pipeline" not in outcome.out
    assert list(tmp_path.iterdir()) == []


def test_the_demo_without_java_says_what_is_missing_and_shows_the_rest(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    outcome = run("demo", "--records", "10")
    assert outcome.code == 0, outcome.err
    assert "210 records came back, every partition in order" in outcome.out
    (said,) = [line for line in outcome.out.splitlines() if "pipeline" in line]
    assert said.startswith("no pipeline is shown: a pipeline needs Java 17 or newer, and there is none")
    assert list(tmp_path.iterdir()) == []
