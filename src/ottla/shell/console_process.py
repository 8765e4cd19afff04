"""The console as a process of its own, beside a broker: `ottla start --console`, `Broker().console()`.

It ends with whoever started it, however that ends: its stdin is a pipe of which nobody else has the other
end. Nothing here waits for it, but for who wants to know where it is.
"""

import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Self

START_S = 30.0
STOP_S = 10.0
CLIENT_CONFIG = "OTTLA_CONFIG"


def arguments(bootstrap: str, port: int, others: Sequence[str] = ()) -> list[str]:
    command = [sys.executable, "-m", "ottla.cli", "console", "--bootstrap", bootstrap, "--port", str(port)]
    return [*command, "--with-parent", *others]


class ConsoleProcess:
    """Says itself where it is, on stdout."""

    def __init__(self, bootstrap: str, port: int, others: Sequence[str] = ()) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._command = arguments(bootstrap, port, others)
        self._thread = threading.Thread(target=self._start, name="ottla-console-start", daemon=True)

    def start(self) -> None:
        """At once: to make a process takes a moment, and a broker has other things to do."""
        self._thread.start()

    def _start(self) -> None:
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE)  # noqa: S603

    def stop(self) -> None:
        self._thread.join(STOP_S)
        process = self._process
        if process is not None and process.stdin is not None:
            process.stdin.close()


class OpenConsole:
    """A console that was opened beside a test or in a notebook; `url` gets in, without asking for a token."""

    def __init__(
        self, bootstrap: str, port: int, others: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        self._process = subprocess.Popen(  # noqa: S603
            arguments(bootstrap, port, others),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | dict(environment or {}),
        )
        timer = threading.Timer(START_S, self._process.kill)
        timer.start()
        try:
            assert self._process.stdout is not None, "it is a pipe"
            line = self._process.stdout.readline()
        finally:
            timer.cancel()
        self.url = line.rpartition(" ")[2].strip()
        if not self.url.startswith("http"):
            self.stop()
            raise RuntimeError("the console did not start; stderr says why")

    def stop(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<console at {self.url}>"

    def _repr_html_(self) -> str:
        """A link, in a notebook."""
        return f'<a href="{self.url}" target="_blank" rel="noopener">the console</a>'
