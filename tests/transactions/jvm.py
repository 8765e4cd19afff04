"""Small programs for clients that exist in Java alone: compiled once, with the jars of bench/.cache."""

import shutil
import subprocess
from pathlib import Path

from bench import apache
from bench.servers import PeerError, clean_environment

SOURCES = Path(__file__).parent / "java"
COMPILE_S = 120.0
# They live for seconds: one small heap, one compiler.
_FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xms32m", "-Xmx256m")
_LIBS = {"Producers": apache._LIBS, "Sums": apache._STREAMS_LIBS}


def compile_program(name: str, folder: Path) -> Path:
    """The folder with its classes. PeerError says what is missing."""
    if shutil.which("javac") is None:
        raise PeerError("no javac on this machine")
    command = ["javac", "-cp", f"{_LIBS[name]}/*", "-d", str(folder), str(SOURCES / f"{name}.java")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_S, env=clean_environment())
    assert done.returncode == 0, done.stderr
    return folder


def java(classes: Path, name: str, *arguments: str) -> list[str]:
    return ["java", *_FLAGS, "-cp", f"{classes}:{_LIBS[name]}/*", name, *arguments]
