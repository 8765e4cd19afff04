"""The disk port on a real disk."""

import os
from pathlib import Path

import pytest

from ottla.base.files import OsFiles

FILES = OsFiles()


def test_a_file_grows_at_its_end_and_is_read_anywhere(tmp_path: Path) -> None:
    file = FILES.open(str(tmp_path / "f"))
    assert (file.size, file.read(0, 10)) == (0, b"")
    file.append(b"hello ")
    file.append(memoryview(bytearray(b"world")))
    assert (file.size, file.read(6, 3), file.read(9, 100)) == (11, b"wor", b"ld")
    file.sync()
    file.close()
    again = FILES.open(str(tmp_path / "f"))
    again.append(b"!")
    assert (again.size, FILES.read(again.path)) == (12, b"hello world!")
    again.truncate(5)
    again.append(b"?")
    assert FILES.read(again.path) == b"hello?"
    again.close()


def test_a_write_in_parts_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = FILES.open(str(tmp_path / "f"))
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, view, at: write(fd, view[:2], at))
    file.append(b"abcde")
    assert (file.size, FILES.read(file.path)) == (5, b"abcde")
    file.close()


def test_a_write_that_fails_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = FILES.open(str(tmp_path / "f"))
    file.append(b"kept")
    write = os.pwrite
    calls: list[int] = []

    def fails_at_second(fd: int, view: memoryview, at: int) -> int:
        calls.append(at)
        if len(calls) > 1:
            raise OSError(28, "No space left on device")
        return write(fd, view[:2], at)

    monkeypatch.setattr(os, "pwrite", fails_at_second)
    with pytest.raises(OSError, match="No space"):
        file.append(b"lost")
    assert (file.size, FILES.read(file.path)) == (4, b"kept")
    monkeypatch.undo()
    file.append(b" and more")
    assert FILES.read(file.path) == b"kept and more"
    file.close()


def test_an_open_file_follows_its_name(tmp_path: Path) -> None:
    file = FILES.open(str(tmp_path / "old"))
    file.append(b"x")
    file.rename(str(tmp_path / "new"))
    file.append(b"y")
    assert (file.path, FILES.read(str(tmp_path / "new"))) == (str(tmp_path / "new"), b"xy")
    file.close()


@pytest.mark.parametrize("sync", [True, False])
def test_an_atomic_write_replaces_the_whole_and_leaves_no_temporary(tmp_path: Path, sync: bool) -> None:
    path = str(tmp_path / "f")
    FILES.write_atomic(path, b"one, long", sync=sync)
    FILES.write_atomic(path, b"two", sync=sync)
    assert (FILES.read(path), FILES.list(str(tmp_path))) == (b"two", ["f"])


@pytest.mark.parametrize("sync", [True, False])
def test_names_change_and_go(tmp_path: Path, sync: bool) -> None:
    folder = str(tmp_path / "a" / "b")
    assert [FILES.make_directory(folder), FILES.make_directory(folder)] == [True, False]
    FILES.write_atomic(folder + "/2", b"two")
    FILES.write_atomic(folder + "/1", b"one")
    assert FILES.list(folder) == ["1", "2"]
    FILES.rename(folder + "/1", folder + "/3", sync=sync)
    FILES.remove(folder + "/2")
    assert (FILES.list(folder), FILES.exists(folder + "/3"), FILES.exists(folder + "/1")) == (
        ["3"],
        True,
        False,
    )
    FILES.rename(folder, str(tmp_path / "c"), sync=sync)
    assert FILES.list(str(tmp_path / "c")) == ["3"]
    FILES.remove_tree(str(tmp_path / "c"))
    assert not FILES.exists(str(tmp_path / "c"))


def test_sizes_times_and_space(tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    FILES.write_atomic(path, b"12345")
    os.utime(path, ns=(0, 1_234_567_891_000_000))
    assert (FILES.size(path), FILES.modified_ms(path)) == (5, 1_234_567_891)
    total, usable = FILES.space(str(tmp_path))
    assert 0 < usable <= total


def test_a_path_can_be_synced_later_and_may_be_gone_by_then(tmp_path: Path) -> None:
    path = str(tmp_path / "f")
    FILES.write_atomic(path, b"x", sync=False)
    FILES.syncable(path).sync()
    FILES.syncable(str(tmp_path)).sync()
    FILES.remove(path)
    FILES.syncable(path).sync()


def test_what_is_not_there_is_an_error(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    for ask in (FILES.read, FILES.size, FILES.modified_ms, FILES.list, FILES.remove, FILES.remove_tree):
        with pytest.raises(FileNotFoundError):
            ask(missing)


def test_where_the_system_takes_no_advice_files_are_read_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "a")
    Path(path).write_bytes(b"0123456789")
    monkeypatch.delattr(os, "posix_fadvise", raising=False)
    file = OsFiles().open(path)
    assert file.read_now(2, 3) == b"234"
    file.close()
    OsFiles().warm(path, 0, 10)
