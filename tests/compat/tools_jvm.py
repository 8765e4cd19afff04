"""Apache Kafka's command-line tools and Java client, one after the other in one JVM.

A JVM for each would take longer than all the rest of the tests.
"""

import base64
import shutil
import subprocess
import threading
from pathlib import Path
from typing import NamedTuple

from bench import apache
from bench.servers import PeerError, clean_environment
from tests.compat.apache import QUICK_JVM
from tests.support.processes import die_with_parent
from tests.transactions.jvm import COMPILE_S

SOURCES = Path(__file__).parent / "java"
TOOL_S = 120.0


class Outcome(NamedTuple):
    code: int
    said: str


class ToolsJvm:
    def __init__(self, folder: Path) -> None:
        """PeerError says what is missing."""
        apache.fetch()
        if shutil.which("javac") is None:
            raise PeerError("no javac on this machine")
        path, environment = f"{folder}:{apache._LIBS}/*", clean_environment() | QUICK_JVM
        compiler = ["javac", "-cp", path, "-d", str(folder), *map(str, sorted(SOURCES.glob("*.java")))]
        done = subprocess.run(compiler, capture_output=True, text=True, timeout=COMPILE_S, env=environment)
        assert done.returncode == 0, done.stderr
        self._process = subprocess.Popen(
            ["java", "-XX:+UseSerialGC", "-Xmx256m", "-cp", path, "Tools"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
            preexec_fn=die_with_parent,
        )

    def run(self, name: str, *arguments: str) -> Outcome:
        """The class with this name. Its arguments must have no tabs in them."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        late = threading.Timer(TOOL_S, self._process.kill)
        late.start()
        try:
            stdin.write("\t".join((name, *arguments)) + "\n")
            stdin.flush()
            line = stdout.readline()
        finally:
            late.cancel()
        assert line, f"{name} ended the JVM, or took longer than {TOOL_S:.0f} s"
        code, _, said = line.partition(" ")
        return Outcome(int(code), base64.b64decode(said).decode())

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
