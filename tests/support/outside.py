"""Programs, run as from a shell in which no virtual environment is activated: its Python has no Ottla."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

RUN_S = 500.0
_UNSET = (
    "VIRTUAL_ENV",
    "OTTLA_BOOTSTRAP",
    "PYTHONPATH",
    "PYSPARK_PYTHON",
    "PYSPARK_DRIVER_PYTHON",
    "SPARK_HOME",
)


def environment() -> dict[str, str]:
    own = os.path.dirname(sys.executable)
    paths = [path for path in os.environ["PATH"].split(os.pathsep) if path != own]
    kept = {name: value for name, value in os.environ.items() if name not in _UNSET}
    return {**kept, "PATH": os.pathsep.join(paths), "SPARK_LOCAL_IP": "127.0.0.1"}


def run(command: list[str], folder: Path, more: Mapping[str, str] | None = None) -> str:
    """What it has written, if it has ended well."""
    result = subprocess.run(
        command,
        env={**environment(), **(more or {})},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=RUN_S,
    )
    assert result.returncode == 0, f"{command}:\n{result.stdout}\n{result.stderr}"
    return result.stdout
