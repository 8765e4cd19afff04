"""What a pipeline needs of this machine: Java, PySpark, and an environment in which they find each other."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys

from ottla.base.command_error import CommandError
from ottla.spark.session import on_loopback, this_python

JAVA_MIN = 17
ASK_JAVA_S = 20.0
NEEDED = ("pyspark", "pyarrow", "yaml", "grpc", "google.protobuf")


def missing() -> str | None:
    """One sentence on what is missing and what to do about it; None if a pipeline can run."""
    for name in NEEDED:
        if not _is_there(name):
            return f"a pipeline needs PySpark, and {name} is not installed: pip install 'ottla[spark]'"
    java = java_path()
    if java is None:
        return (
            f"a pipeline needs Java {JAVA_MIN} or newer, and there is none: install it "
            f"(for example `apt install openjdk-{JAVA_MIN}-jre-headless`), or say with JAVA_HOME where it is"
        )
    version = _java_version(java)
    if version is None:
        return (
            f"a pipeline needs Java {JAVA_MIN} or newer, and {java} does not run; "
            "say with JAVA_HOME which one to use"
        )
    if version < JAVA_MIN:
        return (
            f"a pipeline needs Java {JAVA_MIN} or newer, and {java} is Java {version}; "
            "install a newer one, and say with JAVA_HOME where it is"
        )
    return None


def check() -> None:
    problem = missing()
    if problem is not None:
        raise CommandError(problem)


def _is_there(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # of a parent
        return False


def java_path() -> str | None:
    home = os.environ.get("JAVA_HOME")
    if home:
        path = os.path.join(home, "bin", "java")
        return path if os.access(path, os.X_OK) else None
    return shutil.which("java")


def _java_version(java: str) -> int | None:
    try:
        asked = [java, "-version"]
        said = subprocess.run(asked, capture_output=True, text=True, timeout=ASK_JAVA_S).stderr  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(match[1]) if match else None


def environment(home: str, master: str) -> dict[str, str]:
    """Of the driver: this interpreter for all of Spark's Python, and the Spark that is installed with it. A
    `local` Spark can be reached from this machine only, unless SPARK_LOCAL_IP says otherwise."""
    own = {
        "PATH": os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")]),
        **this_python(),
        "SPARK_HOME": home,
        "PYTHONUNBUFFERED": "1",
    }
    return {**on_loopback(master), **os.environ, **own}
