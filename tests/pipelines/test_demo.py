"""The whole demo, as `make demo` runs it."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tests.pipelines.conftest import WAIT_S, die_with_parent, quick


def test_the_demo_shows_the_whole_and_leaves_nothing(
    spark_is_there: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert tempfile.gettempdir()
    command = [sys.executable, "-m", "ottla.cli", "demo", "--records", "2000"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=WAIT_S, env=quick(), preexec_fn=die_with_parent
    )
    assert done.returncode == 0, done.stderr
    assert "2,200 records came back, every partition in order" in done.stdout
    assert "revenue, each order once, joined to its customer" in done.stdout
    countries = [line.split()[0] for line in done.stdout.split("COUNTRY")[1].splitlines()[1:5]]
    assert sorted(countries) == ["AT", "CZ", "DE", "IL"]
    assert "sessions" in done.stdout
    assert "the broker stopped cleanly and its data is gone" in done.stdout
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("ottla")] == []
