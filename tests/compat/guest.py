"""A client program in another language, which is told what to do and prints what it saw.

`PROGRAM STEP OPTIONS`: the options are one object of JSON, and what it prints are lines of JSON. All steps
have `bootstrap` (addresses with commas between them) and `topic`; `user`, `password` and `ca` (a file) ask
for SASL_SSL with SCRAM-SHA-512, and `protocol` is that of groups. The steps, with what else they are told:

produce       the records of `records()` with one `codec`, one after the other, acknowledged by all replicas
consume       `count` records from the beginning, with an `isolation`; a line for each
member        a member of a `group` that commits what it reads, until its input ends; a line for every record,
              and one with its partitions whenever they change
times         the first offset of partition 0 at or after a `timestamp`
admin         creates a topic, changes a setting, looks at both, deletes it
steady        `count` records, each after the answer to the one before; a line for each answer
transactions  ten records in a transaction that is committed, and ten in one that is aborted
copy          `count` records into the topic `target`, in transactions that commit the `group`'s offsets too
"""

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.processes import die_with_parent
from tests.support.waiting import wait_for

STEP_S = 120.0
RECORDS = 100


def records() -> list[tuple[str, str | None, dict[str, str]]]:
    """Key, value and headers of what `produce` sends; the last is a tombstone."""
    made: list[tuple[str, str | None, dict[str, str]]] = [
        (f"key-{n}", f"value-{n} " * 20, {"number": str(n)}) for n in range(RECORDS)
    ]
    return [*made, ("key-0", None, {})]


class Running:
    """A step that goes on until its input ends."""

    def __init__(self, command: list[str], folder: Path | None, log: Path) -> None:
        self._log = log.open("a+")
        self._path = log
        self._process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True,
            preexec_fn=die_with_parent,
        )  # fmt: skip
        self.lines: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                self.lines.append(json.loads(line))

    @property
    def said(self) -> str:
        return self._path.read_text(errors="replace")[-3000:]

    def of(self, name: str) -> list[Any]:
        """What lines say of one thing."""
        return [line[name] for line in list(self.lines) if name in line]

    @property
    def partitions(self) -> list[int]:
        return sorted((self.of("partitions") or [[]])[-1])

    def finish(self, within_s: float = STEP_S) -> None:
        """Its input ends, and so does it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self.wait(within_s)

    def wait(self, within_s: float = STEP_S) -> None:
        assert self._process.wait(within_s) == 0, self.said
        self._reader.join(within_s)

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join(STEP_S)
        for file in (self._process.stdin, self._process.stdout, self._log):
            assert file is not None
            file.close()


class Guest:
    def __init__(
        self,
        command: list[str],
        folder: Path,
        cwd: Path | None = None,
        options: dict[str, object] | None = None,
    ) -> None:
        self._command, self._folder, self._cwd, self._options = command, folder, cwd, options or {}

    def with_options(self, **options: object) -> "Guest":
        """One that has these in every step."""
        return Guest(self._command, self._folder, self._cwd, options)

    @contextmanager
    def started(self, step: str, **options: object) -> Iterator[Running]:
        log = self._folder / f"{step}.log"
        process = Running([*self._command, step, json.dumps(self._options | options)], self._cwd, log)
        try:
            yield process
        finally:
            process.close()

    def run(self, step: str, **options: object) -> Running:
        """The whole step."""
        with self.started(step, **options) as process:
            wait_for(lambda: not process.is_running, STEP_S, lambda: f"{step} to end\n{process.said}")
            process.wait()
        return process
