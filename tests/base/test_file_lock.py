"""One process at a time: the lock on a file."""

from pathlib import Path

import pytest

from ottla.base.command_error import CommandError
from ottla.base.file_lock import exclusive


def test_only_one_has_the_lock_and_the_next_gets_it_afterwards(tmp_path: Path) -> None:
    path = str(tmp_path / "folder" / "lock")
    first = exclusive(path, unwritable="cannot", held="somebody has it")
    second = exclusive(path, unwritable="cannot", held="somebody has it")
    with first, pytest.raises(CommandError, match="somebody has it"), second:
        raise AssertionError("two have the lock")
    with exclusive(path, unwritable="cannot", held="somebody has it"):
        pass


def test_a_lock_that_cannot_be_is_one_line_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    lock = exclusive(str(tmp_path / "file" / "lock"), unwritable="cannot write there", held="")
    with pytest.raises(CommandError) as raised, lock:
        raise AssertionError("a lock inside of a file")
    assert str(raised.value) == "cannot write there: File exists"
