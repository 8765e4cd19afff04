"""The bench can tell what of a log is in memory, and change it."""

import os

import pytest
from bench import page_cache


def test_the_segments_of_a_log_come_first_and_in_order(tmp_path) -> None:
    folder = tmp_path / "old-0"
    folder.mkdir()
    for name in ("00000000000000000000.index", "00000000000000000009.log", "00000000000000000000.log"):
        (folder / name).write_bytes(b"")
    names = [os.path.basename(path) for path in page_cache.log_files(str(tmp_path), "old")]
    assert names == ["00000000000000000000.log", "00000000000000000009.log", "00000000000000000000.index"]


def test_a_file_that_is_forgotten_is_not_in_memory_and_one_that_is_brought_in_is(tmp_path) -> None:
    """A file system that is memory itself forgets nothing."""
    paths = [str(tmp_path / name) for name in ("a", "b")]
    for path in paths:
        with open(path, "wb") as out:
            out.write(os.urandom(1 << 20))
    assert page_cache.share_in_memory(paths) == 1
    page_cache.forget(paths[0])
    assert page_cache.share_in_memory(paths) in (1, pytest.approx(0.5, abs=0.1))
    page_cache.bring_in(paths[0])
    assert page_cache.share_in_memory(paths) == 1
    assert page_cache.share_in_memory([]) == 0
