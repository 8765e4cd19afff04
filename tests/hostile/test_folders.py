"""Data folders with things in them that no broker made: named in a line, not followed, and nobody waits."""

import os
import random
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.kafka_clients.harness import BrokerProcess
from tests.kafka_clients.wire_client import Wire, batch

from ottla.base.errors import ErrorCode
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest

GIBIBYTE = 1 << 30
SPARSE_BYTES = 4 * GIBIBYTE
MEMORY_MAX = 200 << 20
PARTITIONS = 12
FIRST = f"{0:020d}"


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a broker left that stopped cleanly."""
    folder = tmp_path_factory.mktemp("left")
    broker = BrokerProcess(folder)
    broker.start()
    try:
        with Wire(broker.port) as wire:
            create(wire, "orders", PARTITIONS)
            for partition in range(PARTITIONS):
                assert wire.produce("orders", bytes(batch(b"kept")), partition=partition).error_code == 0
        assert broker.stop() == 0
    finally:
        broker.kill()
    return folder / "data"


@pytest.fixture
def stopped(left: Path, tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that is not running, over a copy of that."""
    shutil.copytree(left, tmp_path / "data")
    broker = BrokerProcess(tmp_path)
    yield broker
    broker.kill()
    assert broker.bugs() == []


def create(wire: Wire, topic: str, partitions: int) -> None:
    wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)
    assert wire.call(CreateTopicsRequest(topics=[wanted]), 5).topics[0].error_code == 0


def make_sparse(path: Path, size: int = SPARSE_BYTES) -> None:
    with path.open("ab") as file:
        file.truncate(size)


def verify(data: Path) -> tuple[int, list[str]]:
    command = [sys.executable, "-m", "ottla.cli", "verify", str(data)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout.splitlines()


def refusal(broker: BrokerProcess) -> str:
    """The one line with which it does not start."""
    done = subprocess.run(broker.command(), capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    errors = [line for line in done.stderr.splitlines() if not line.startswith(("WARNING", "INFO"))]
    assert len(errors) == 1, done.stderr
    return errors[0]


def spoil(data: Path, outside: Path) -> dict[int, str]:
    """Something wrong with most partitions: what must be said of each."""
    outside.mkdir()
    said = {}

    def in_partition(number: int, name: str) -> Path:
        path = data / f"orders-{number}" / name
        path.unlink(missing_ok=True)
        said[number] = f"orders-{number}/{name}"
        return path

    os.mkfifo(in_partition(0, f"{FIRST}.log"))
    os.mkfifo(in_partition(1, f"{FIRST}.index"))
    os.mkfifo(in_partition(2, "partition.metadata"))
    os.mkfifo(in_partition(3, "leader-epoch-checkpoint"))
    shutil.copy(data / "orders-11" / f"{FIRST}.log", outside / "log")
    in_partition(4, f"{FIRST}.log").symlink_to(outside / "log")
    shutil.move(data / "orders-5", outside / "orders-5")
    (data / "orders-5").symlink_to(outside / "orders-5")
    said[5] = "orders-5 is a symbolic link"
    shutil.rmtree(data / "orders-6")
    (data / "orders-6").write_bytes(b"a file")
    said[6] = "orders-6 is a plain file"
    make_sparse(in_partition(7, "leader-epoch-checkpoint"))
    make_sparse(in_partition(8, f"{FIRST}.log"))
    with socket.socket(socket.AF_UNIX) as unix:
        here = os.getcwd()
        os.chdir(data / "orders-9")  # the path of a socket is short
        try:
            unix.bind("00000000000000000007.snapshot")
        finally:
            os.chdir(here)
    said[9] = "orders-9/00000000000000000007.snapshot"
    return said


def test_what_is_no_plain_file_is_named_and_costs_its_own_partition_alone(
    stopped: BrokerProcess, tmp_path: Path
) -> None:
    said = spoil(stopped.data, tmp_path / "outside")
    for name in (".index", ".timeindex"):
        make_sparse(stopped.data / "orders-10" / (FIRST + name))
    os.mkfifo(stopped.data / "pipe")
    os.mkfifo(stopped.data / "orders-11" / "pipe")
    illegal = ["bad name-0", "ünï-1", "orders-007", "orders-٣", "orders-4294967296", "..-0"]
    for name in illegal:
        (stopped.data / name).mkdir()
    code, lines = verify(stopped.data)
    assert code == 1
    for number, path in said.items():
        errors = [line for line in lines if f"/{path.split(' is ')[0]}:" in line]
        assert [line.startswith("error: ") for line in errors] == [True], (number, lines)
    assert sum("no partition can have" in line for line in lines) == len(illegal)
    before = {path.name for path in (tmp_path / "outside").rglob("*")}
    stopped.start()
    assert psutil.Process(stopped.process.pid).memory_info().rss < MEMORY_MAX
    lines = stopped.log.splitlines()
    for number, path in said.items():
        named = [line for line in lines if path in line]
        assert len(named) == 1, (path, lines)
        assert f"orders-{number} is not served until it is moved away" in named[0]
    for name in ("data/pipe", "orders-11/pipe", *illegal):
        assert sum(f"{name} is " in line and "it is ignored" in line for line in lines) == 1, name
    with Wire(stopped.port) as wire:
        for partition in range(PARTITIONS):
            outcome = wire.produce("orders", bytes(batch(b"more")), partition=partition)
            if partition in said:
                assert outcome.error_code == ErrorCode.KAFKA_STORAGE_ERROR, partition
            else:
                assert (outcome.error_code, outcome.base_offset) == (0, 1)
        deleted = wire.call(DeleteTopicsRequest(topic_names=["orders"], timeout_ms=30_000), 1)
        assert deleted.responses[0].error_code == 0
        create(wire, "orders", PARTITIONS)
        assert wire.produce("orders", bytes(batch(b"new")), partition=5).error_code != 0
        assert wire.produce("orders", bytes(batch(b"new")), partition=11).error_code == 0
    assert stopped.stop() == 0
    stopped.start()
    assert stopped.stop() == 0
    assert {path.name for path in (tmp_path / "outside").rglob("*")} == before


def test_a_data_folder_that_is_itself_a_link_is_opened_since_it_was_named(stopped: BrokerProcess) -> None:
    elsewhere = stopped.data.parent / "elsewhere"
    stopped.data.rename(elsewhere)
    stopped.data.symlink_to(elsewhere)
    stopped.start()
    with Wire(stopped.port) as wire:
        assert wire.produce("orders", bytes(batch(b"more"))).base_offset == 1
    assert stopped.stop() == 0


@pytest.mark.parametrize(
    "name", [".lock", "meta.properties", "recovery-point-offset-checkpoint", "keeper.db"]
)
@pytest.mark.parametrize("kind", ["a FIFO", "a symbolic link"])
def test_a_file_of_the_folder_that_is_something_else_is_one_line(
    stopped: BrokerProcess, name: str, kind: str
) -> None:
    path, target = stopped.data / name, stopped.data.parent / "target"
    target.write_bytes(b"not to be touched\n")
    path.unlink()
    if kind == "a FIFO":
        os.mkfifo(path)
    else:
        path.symlink_to(target)
    code, lines = verify(stopped.data)
    assert code == 1
    assert [kind in line for line in lines if line.startswith("error: ")] == [True], lines
    line = refusal(stopped)
    assert name in line
    assert kind in line
    assert "move it away" in line
    assert target.read_bytes() == b"not to be touched\n"


def test_a_damaged_keeper_is_one_line_that_says_what_to_do(stopped: BrokerProcess) -> None:
    path = stopped.data / "keeper.db"
    sound, chance = path.read_bytes(), random.Random(11)
    spoiled = {
        "cut": sound[: len(sound) // 2],
        "noise": sound[:100] + chance.randbytes(len(sound) - 100),
        "no JSON": sound.replace(b'"topic_id"', b'"topic_od"'),
        "text": b"not a database\n" * 100,
    }
    for data in spoiled.values():
        path.write_bytes(data)
        code, lines = verify(stopped.data)
        errors = [line for line in lines if line.startswith("error: ")]
        assert (code, [line.startswith(f"error: {path}: ") for line in errors]) == (1, [True]), lines
        line = refusal(stopped)
        assert f"cannot read {path}: " in line
        assert "if it is damaged, move it and keeper.db-wal away" in line
    path.unlink()
    stopped.start()
    assert "the keeper is new (there was no keeper.db): topics taken over" in stopped.log
    assert f": 1, with {PARTITIONS} partitions" in stopped.log
    with Wire(stopped.port) as wire:
        assert wire.produce("orders", bytes(batch(b"more"))).base_offset == 1
    assert stopped.stop() == 0


def test_without_a_keeper_a_partition_that_cannot_be_opened_is_not_forgotten(stopped: BrokerProcess) -> None:
    """A new keeper would not know it, and the start after that would remove its records."""
    (stopped.data / "keeper.db").unlink()
    log = stopped.data / "orders-3" / f"{FIRST}.log"
    log.rename(log.with_suffix(".aside"))
    os.mkfifo(log)
    line = refusal(stopped)
    assert "orders-3 has something in its place that is not its log" in line
    log.unlink()
    log.with_suffix(".aside").rename(log)
    stopped.start()
    with Wire(stopped.port) as wire:
        assert wire.produce("orders", bytes(batch(b"more")), partition=3).base_offset == 1
    assert stopped.stop() == 0
