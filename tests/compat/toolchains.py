"""Building what a row needs, with the ordinary tool of its language, outside the tree.

A row's folder is copied to tests/compat/.cache and built there, so the tree stays clean and a second run is
quick. What is missing is a skip, which the card shows.
"""

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.support.processes import die_with_parent as die_with_parent

CACHE = Path(__file__).parent / ".cache"
BUILD_S = 560.0


def need(*commands: str) -> None:
    for command in commands:
        if shutil.which(command) is None:
            pytest.skip(f"there is no {command} on this machine")


def copied(source: Path, name: str = "") -> Path:
    target = CACHE / (name or source.name)
    shutil.copytree(
        source, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("target", "node_modules")
    )
    return target


def build(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=BUILD_S)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"


def maven(source: Path, phase: str) -> Path:
    """A Maven project, built up to a phase."""
    need("java", "mvn")
    folder = copied(source)
    build(["mvn", "-B", "-q", phase], folder)
    return folder
