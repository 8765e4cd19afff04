"""Which tests get a second chance in CI, and which do not."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).parent.parent / "tools" / "second_chance.py"
PASSED = '<testsuite><testcase classname="tests.test_tidy" name="test_x" /></testsuite>'
FAILED = """<testsuite>
  <testcase classname="tests.test_tidy" name="test_x"><failure message="no" /></testcase>
  <testcase classname="tests.shell.test_keeper.TestEveryKeeper" name="test_y[local]"><error /></testcase>
  <testcase classname="tests.test_tidy" name="test_z"><skipped /></testcase>
</testsuite>"""


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("second_chance", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "RESULTS", tmp_path)
    for name in ("lint.ok", "pure.ok"):
        (tmp_path / name).touch()
    (tmp_path / "real.xml").write_text(PASSED)
    (tmp_path / "long.xml").write_text(FAILED)
    return module


def test_failed_tests_are_named_as_pytest_takes_them(tool: ModuleType, tmp_path: Path) -> None:
    assert list(tool._failed(tmp_path / "long.xml")) == [
        "tests/test_tidy.py::test_x",
        "tests/shell/test_keeper.py::TestEveryKeeper::test_y[local]",
    ]


@pytest.mark.parametrize("missing", ["lint.ok", "pure.ok"])
def test_a_pure_lane_that_failed_gets_no_second_chance(
    tool: ModuleType, tmp_path: Path, missing: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / missing).unlink()
    assert tool.main() == 1
    assert "once more" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("ends", "said"), [("exit 0", "flake: the lane 'long'"), ("exit 1", "a second failure")]
)
def test_a_lane_that_broke_off_is_run_again_whole(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str],
    ends: str, said: str,
) -> None:  # fmt: skip
    (tmp_path / "long.xml").unlink()
    (tmp_path / "Makefile").write_text(f"test-long:\n\t@echo whole; {ends}\n")
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    assert tool.main() == (ends != "exit 0")
    printed = capfd.readouterr().out
    assert "whole" in printed
    assert said in printed


def test_a_second_failure_fails(tool: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert tool.main() == 1, "there are no tests of these names"
    assert "a second failure" in capsys.readouterr().out


def test_what_passes_alone_is_printed_as_a_flake(
    tool: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "test_the_source_is_tidy"
    failed = f'<testcase classname="tests.test_tidy" name="{name}"><failure message="no" /></testcase>'
    (tmp_path / "long.xml").write_text(f"<testsuite>{failed}</testsuite>")
    assert tool.main() == 0
    assert f"flake: tests/test_tidy.py::{name}" in capsys.readouterr().out
