"""The rules of tests/tidy.py hold for the source, and each of them can fail."""

import importlib.util
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
spec = importlib.util.spec_from_file_location("tidy", TESTS / "tidy.py")
assert spec
assert spec.loader
tidy = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tidy)


def test_the_source_is_tidy() -> None:
    assert list(tidy.problems(TESTS.parent / "src" / "ottla")) == []


@pytest.mark.parametrize(
    ("room", "source", "complaint"),
    [
        ("log", "import time", "log is pure and may not import time"),
        ("wire", "from ottla.log import log", "wire may not import log"),
        (
            "controller",
            "from ottla.replication.partition import Partition",
            "controller may not import replication",
        ),
        ("api", "async def f(): ...", "async def outside"),
        ("broker", "def f() -> None:\n    print('hello')", "print outside cli"),
        ("broker", "class TopicManager: ...", "says nothing"),
        ("log", "def f() -> None:\n" + "    x = 1\n" * 61, "more than 60 code lines"),
        ("log", "x = 1\n" * 501, "longer than 500 lines"),
        ("log", "x = '" + "y" * 120 + "'", "wider than 110 columns"),
    ],
)
def test_each_rule_can_fail(tmp_path: Path, room: str, source: str, complaint: str) -> None:
    folder = tmp_path / room
    folder.mkdir()
    (folder / "example.py").write_text('"""An example."""\n' + source + "\n")
    assert any(complaint in problem for problem in tidy.problems(tmp_path))


def test_a_module_without_an_opening_is_found(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("x = 1\n")
    assert list(tidy.problems(tmp_path)) == ["x.py: does not open with what it is"]
