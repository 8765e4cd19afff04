"""The room on disks is looked at in a thread, now and then."""

import asyncio
import os
from pathlib import Path

import pytest
from tests.support.waiting import until

from ottla.shell.disk_room import LOOK_MS, DiskRoom
from ottla.shell.metrics.disks import DiskMetrics


def test_the_first_reader_finds_nothing_and_the_next_what_the_disk_has(tmp_path: Path) -> None:
    async def read_twice() -> dict[str, tuple[int, int]]:
        room = DiskRoom()
        metrics = DiskMetrics(room, [str(tmp_path), str(tmp_path / "gone")])
        assert [list(samples) for _, samples in metrics.read(0)] == [[], []]
        await until(lambda: room.by_directory, "the disk was looked at")
        free, size = (dict(samples) for _, samples in metrics.read(1))
        assert free.keys() == size.keys() == {(str(tmp_path),)}
        return room.by_directory

    disk = os.statvfs(tmp_path)
    [(free, size)] = asyncio.run(read_twice()).values()
    assert size == disk.f_blocks * disk.f_frsize
    assert 0 < free <= size


def test_it_is_not_looked_at_more_often_than_every_ten_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []

    def look(path: str) -> os.statvfs_result:
        looks.append(path)
        raise OSError

    async def read_often() -> None:
        room = DiskRoom()
        for now_ms in (0, 1, LOOK_MS - 1, LOOK_MS, LOOK_MS + 1):
            room.look([str(tmp_path)], now_ms)
            await until(lambda: not room._is_looking, "the look is over")
        assert room.by_directory == {}

    monkeypatch.setattr(os, "statvfs", look)
    asyncio.run(read_often())
    assert len(looks) == 2
