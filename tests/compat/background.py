"""A program of a row that runs beside the test, and is gone after it."""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.processes import die_with_parent


@contextmanager
def running(
    command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Iterator[None]:
    """What it says is appended to `log`; it is killed in the end."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            command, cwd=cwd or log.parent, env=environment, stdin=subprocess.DEVNULL, stdout=output,
            stderr=output, preexec_fn=die_with_parent,
        )  # fmt: skip
    try:
        yield
    finally:
        process.kill()
        process.wait()


def tail(log: Path) -> str:
    return log.read_text(errors="replace")[-3000:]
