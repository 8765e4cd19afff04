"""A data directory belongs to one broker; the address it listens on; its clock."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ottla.base.files import OsFiles
from ottla.shell.clock import Clock
from ottla.shell.lock import SHARED, DirectoryLock, StartError, read_cluster_id, write_meta

FILES = OsFiles()


def test_a_second_taker_is_refused_and_told_who_has_it(tmp_path: Path) -> None:
    first, second = DirectoryLock(str(tmp_path / "new")), DirectoryLock(str(tmp_path / "new"))
    first.take()
    with pytest.raises(
        StartError, match=rf"in use by another broker \(process {os.getpid()}\); stop that one"
    ):
        second.take()
    first.release()
    second.take()
    second.release()
    second.release()


def test_another_process_is_refused_too_and_its_end_frees_the_directory(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom ottla.shell.lock import DirectoryLock\n"
        f"DirectoryLock({str(tmp_path)!r}).take()\nprint('taken', flush=True)\nsys.stdin.read()\n"
    )
    mine = DirectoryLock(str(tmp_path))
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout
        assert other.stdout.readline() == "taken\n"
        with pytest.raises(StartError, match=rf"process {other.pid}\)"):
            mine.take()
        other.kill()
        other.wait()
    mine.take()
    mine.release()


def test_a_file_is_no_data_directory(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    for path in (tmp_path / "f", tmp_path / "f" / "below"):
        with pytest.raises(
            StartError, match=r"cannot use .* as a data directory: (File exists|Not a directory)"
        ):
            DirectoryLock(str(path)).take()


def test_a_directory_says_whose_it_is(tmp_path: Path) -> None:
    directory = str(tmp_path)
    assert read_cluster_id(FILES, directory, 1) is None
    write_meta(FILES, directory, 1, "abc", shared=False)
    write_meta(FILES, directory, 1, "not written over", shared=False)
    assert read_cluster_id(FILES, directory, 1) == "abc"
    with pytest.raises(StartError, match="belongs to broker 1, and this is broker 2"):
        read_cluster_id(FILES, directory, 2)


@pytest.mark.parametrize(
    ("text", "cluster_id"),
    [
        ("#\n#Mon Jan 01\nnode.id=1\nversion=1\ncluster.id=kafkas\ndirectory.id=x\n", "kafkas"),
        ("broker.id=1\n", None),
        ("cluster.id=a=b\n", "a=b"),
        ("", None),
    ],
)
def test_kafkas_own_files_are_understood(tmp_path: Path, text: str, cluster_id: str | None) -> None:
    (tmp_path / "meta.properties").write_text(text)
    assert read_cluster_id(FILES, str(tmp_path), 1) == cluster_id


def test_a_directory_of_kafkas_keeps_what_it_says_when_it_becomes_one_of_a_clusters(tmp_path: Path) -> None:
    path = tmp_path / "meta.properties"
    path.write_text("#\n#Mon Jan 01\nnode.id=1\nversion=1\ncluster.id=kafkas\ndirectory.id=x\n")
    for _ in range(2):
        write_meta(FILES, str(tmp_path), 1, "kafkas", shared=True)
        assert path.read_text().splitlines() == [
            "#", "#Mon Jan 01", "node.id=1", "version=1", "cluster.id=kafkas", "directory.id=x", SHARED
        ]  # fmt: skip


# The clock


def test_the_clock_goes_on_steadily_when_somebody_sets_the_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    wall, steady = 1_000_000_000_000, 50_000_000
    monkeypatch.setattr(time, "time_ns", lambda: wall)
    monkeypatch.setattr(time, "monotonic_ns", lambda: steady)
    clock = Clock()
    assert (clock.now_ms(), clock.wall_offset_ms()) == (1_000_000, 0)
    steady += 7_000_000
    wall -= 3_000_000_000
    assert clock.now_ms() == 1_000_007
    assert clock.wall_offset_ms() == -3_007
