"""What a row needs, made with the ordinary tool of its language, outside the tree.

A row's folder is copied to tests/compat/.cache and built there, so the tree stays clean and a second run is
quick. What is missing is a skip, which the card shows.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

CACHE = Path(__file__).parent / ".cache"
RUN_S = 1_500.0


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


def run(command: list[str], folder: Path, environment: Mapping[str, str] | None = None) -> str:
    """What it printed; it must end well. The environment is this one's, and what is given."""
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=RUN_S,
        env=os.environ | dict(environment or {}),
    )  # fmt: skip
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


def maven(source: Path, phase: str) -> Path:
    """A Maven project, built up to a phase."""
    need("java", "mvn")
    folder = copied(source)
    run(["mvn", "-B", "-q", phase], folder)
    return folder


def environment(name: str, *packages: str) -> Path:
    """The folder `bin` of a virtual environment with these packages."""
    folder = CACHE / f"python-{name}"
    stamp = folder / "installed"
    if not stamp.exists() or stamp.read_text() != " ".join(packages):
        run([sys.executable, "-m", "venv", "--clear", str(folder)], CACHE.parent)
        run([str(folder / "bin" / "pip"), "install", "--quiet", *packages], CACHE.parent)
        stamp.write_text(" ".join(packages))
    return folder / "bin"


_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>compat</groupId><artifactId>jars</artifactId><version>1</version>
  <dependencies>{}</dependencies>
</project>
"""
_DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"


def jars(name: str, *coordinates: str) -> Path:
    """A folder with artifacts (group:artifact:version) and all that they need."""
    need("java", "mvn")
    folder = CACHE / f"jars-{name}"
    pom = _POM.format("".join(_DEPENDENCY.format(*artifact.split(":")) for artifact in coordinates))
    if not (folder / "pom.xml").exists() or (folder / "pom.xml").read_text() != pom:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "new.xml").write_text(pom)
        goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={folder}"]
        run(["mvn", "-B", "-q", "-f", "new.xml", *goal], folder)
        (folder / "new.xml").replace(folder / "pom.xml")
    return folder


def debian(name: str, *packages: str) -> Path:
    """A folder with the files of Debian packages, as they would be under `/`."""
    need("apt-get", "dpkg")
    folder = CACHE / f"debian-{name}"
    stamp = folder / "packages"
    if not stamp.exists() or stamp.read_text() != " ".join(packages):
        folder.mkdir(parents=True, exist_ok=True)
        run(["apt-get", "download", *packages], folder)
        for package in folder.glob("*.deb"):
            run(["dpkg", "-x", package.name, "root"], folder)
        stamp.write_text(" ".join(packages))
    return folder / "root"


def debian_version(package: str) -> str:
    """The one that apt would install; '' where there is no apt."""
    if shutil.which("apt-cache") is None:
        return ""
    said = subprocess.run(["apt-cache", "policy", package], capture_output=True, text=True, timeout=60).stdout
    return next((line.split()[1] for line in said.splitlines() if "Candidate:" in line), "")


def path() -> str:
    """With the programs of this environment in front."""
    return f"{Path(sys.executable).parent}:{os.environ['PATH']}"
