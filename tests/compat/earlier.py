"""Brokers of an earlier commit, beside those of this tree."""

import os
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# What a cluster can be upgraded from, and downgraded to: where brokers began to register all their listeners.
EARLIEST = "1b401f0"
GIT_S = 60.0


def source(folder: Path, commit: str = os.environ.get("OTTLA_EARLIER", EARLIEST)) -> Path:
    """The folder with the packages of that commit; a skip where the clone has no history."""
    command = ["git", "archive", "--format=tar", commit, "src"]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=GIT_S)
    except FileNotFoundError:
        pytest.skip("there is no git on this machine")
    if done.returncode:
        pytest.skip(f"this clone does not have commit {commit}: {done.stderr.decode().strip()}")
    with tarfile.open(fileobj=BytesIO(done.stdout)) as packed:
        packed.extractall(folder, filter="data")
    packages = folder / "src"
    print_place = [sys.executable, "-c", "import ottla; print(ottla.__file__)"]
    environment = os.environ | {"PYTHONPATH": str(packages)}
    said = subprocess.run(print_place, env=environment, capture_output=True, text=True, timeout=GIT_S).stdout
    assert Path(said.strip()).is_relative_to(packages), said
    return packages
