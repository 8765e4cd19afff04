"""kcat, the command line client, run as a command."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from typing import Any

from tests.kafka_clients.adapters import Placed, Sent

KCAT = shutil.which("kcat")
TIMEOUT_S = 30
MISSING = "kcat is not installed (Debian: apt-get install kcat)"


class Kcat:
    """Produces and consumes text. A line is a record; a tab separates the key."""

    name = "kcat"

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def missing_codec(self, codec: str) -> str | None:
        if KCAT is None:
            return MISSING
        return None if codec in {"none", *features()} else f"kcat was built without {codec}"

    def run(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        assert KCAT is not None, MISSING
        command = [KCAT, "-b", self.bootstrap, *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, timeout=TIMEOUT_S, check=True)

    def produce(
        self, topic: str, records: Sequence[Sent], *, codec: str = "none", **_ignored: Any
    ) -> list[Placed]:
        """The headers of the first record are those of all: kcat takes them from its command line."""
        headers = [part for name, value in records[0].headers for part in ("-H", f"{name}={value.decode()}")]
        lines = b"".join((one.key or b"") + b"\t" + (one.value or b"") + b"\n" for one in records)
        self.run("-P", "-t", topic, "-p", "0", "-K", "\t", "-z", codec, *headers, stdin=lines)
        return []

    def consume(self, topic: str, *arguments: str) -> list[dict[str, Any]]:
        """Everything up to the end, as kcat prints it in JSON."""
        done = self.run("-C", "-t", topic, "-o", "beginning", "-e", "-q", "-J", *arguments)
        return [json.loads(line) for line in done.stdout.splitlines()]


def features() -> set[str]:
    return set(_version().partition("builtin.features=")[2].partition(")")[0].split(","))


def librdkafka() -> tuple[int, ...]:
    """The version that kcat was built with."""
    return tuple(int(part) for part in _version().partition("librdkafka ")[2].split()[0].split("."))


def _version() -> str:
    assert KCAT is not None, MISSING
    return subprocess.run([KCAT, "-V"], capture_output=True, timeout=TIMEOUT_S, check=True).stdout.decode()
