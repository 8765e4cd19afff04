"""Disks that are full, in earnest: a volume without room, and a process that may write no more."""

import contextlib
import resource
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.kafka_clients.harness import BrokerProcess, wait_for
from tests.kafka_clients.wire_client import Closed, Wire, batch

from ottla.base.errors import ErrorCode
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest

MEBIBYTE = 1 << 20
VALUE = b"x" * 50_000
VOLUME_BYTES = 4 * MEBIBYTE
FILE_BYTES = 2 * MEBIBYTE


class OnTwoDisks(BrokerProcess):
    def __init__(self, folder: Path, second: Path) -> None:
        super().__init__(folder)
        self.second = second

    def command(self) -> list[str]:
        command = super().command()
        command[command.index("--data") + 1] = f"{self.data},{self.second}"
        return command


class Limited(BrokerProcess):
    """A broker that may write no file longer than FILE_BYTES: EFBIG comes in the middle of a batch."""

    file_bytes = FILE_BYTES

    def start(self) -> float:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.file_bytes, before[1]))
        try:
            return super().start()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def small_volume(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "small"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={VOLUME_BYTES}", "tmpfs", str(path)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        pytest.skip(f"no volume can be mounted here: {error}")
    if done.returncode:
        pytest.skip(f"no volume can be mounted here: {done.stderr.strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


@contextlib.contextmanager
def running(broker: BrokerProcess) -> Iterator[BrokerProcess]:
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()


def create(wire: Wire, topic: str, partitions: int) -> None:
    wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)
    assert wire.call(CreateTopicsRequest(topics=[wanted]), 5).topics[0].error_code == 0


def fill(produce: Callable[[int], int], rounds: int = 200) -> int:
    """Produce until it fails; how many were acknowledged."""
    for number in range(rounds):
        try:
            code = produce(number)
        except Closed:
            return number
        if code:
            assert code == ErrorCode.KAFKA_STORAGE_ERROR
            return number
    raise AssertionError("the disk did not become full")


def record(number: int) -> bytes:
    return bytes(batch(b"%d:" % number + VALUE))


def read_all(wire: Wire, topic: str, partition: int) -> list[int]:
    found: list[int] = []
    while records := wire.fetch(topic, len(found), partition=partition):
        found += [int((one.value or b"").partition(b":")[0]) for one in records if one.offset >= len(found)]
    return found


def test_a_full_volume_goes_offline_alone_and_comes_back_whole_when_there_is_room(
    tmp_path: Path, small_volume: Path
) -> None:
    ballast = small_volume / "ballast"
    ballast.write_bytes(bytes(VOLUME_BYTES // 2))
    broker = OnTwoDisks(tmp_path, small_volume)
    with running(broker), Wire(broker.port) as wire:
        create(wire, "t", 2)
        full = fill(lambda n: wire.produce("t", record(n), partition=1).error_code)
        assert full > 10
        assert wire.produce("t", record(0), partition=1).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        for number in range(full):
            assert wire.produce("t", record(number), partition=0).error_code == ErrorCode.NONE
        dirs = wire.call(DescribeLogDirsRequest(topics=None), 4).results
        assert [one.error_code for one in dirs] == [ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR]
        assert f"{small_volume} is offline, with 1 partitions, until the next start" in broker.log
        assert "No space left on device" in broker.log
        assert broker.bugs() == []
        assert broker.stop() == 0
    ballast.unlink()
    with running(broker), Wire(broker.port) as wire:
        assert read_all(wire, "t", 1) == list(range(full))
        assert read_all(wire, "t", 0) == list(range(full))
        assert wire.produce("t", record(full), partition=1).base_offset == full
        assert broker.bugs() == []


def test_a_batch_that_went_to_disk_in_part_is_neither_acknowledged_nor_found_again(tmp_path: Path) -> None:
    broker = Limited(tmp_path)
    with running(broker), Wire(broker.port) as wire:
        create(wire, "t", 1)
        full = fill(lambda n: wire.produce("t", record(n)).error_code)
        assert full == FILE_BYTES // len(record(0))
        wait_for(lambda: not broker.is_running, 20, "the end of the broker")
        assert broker.process.returncode == 1
        assert "the last log directory failed: [Errno 27] File too large" in broker.log
        assert broker.bugs() == []
    broker.file_bytes = resource.RLIM_INFINITY
    with running(broker), Wire(broker.port) as wire:
        assert read_all(wire, "t", 0) == list(range(full))
        assert wire.produce("t", record(full)).base_offset == full
        assert broker.stop() == 0
