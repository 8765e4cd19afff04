"""Kafka's own programs in Java that are no clients: Connect and MirrorMaker, run as their scripts do."""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bench.servers import clean_environment
from tests.compat import toolchains
from tests.support.processes import die_with_parent

VERSION = "4.3.1"
_ARTIFACTS = ("connect-runtime", "connect-file", "connect-mirror", "kafka-tools", "kafka_2.13")
FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xms32m", "-Xmx384m")
TOOL_S = 120.0


def jars() -> Path:
    return toolchains.jars("kafka", *(f"org.apache.kafka:{name}:{VERSION}" for name in _ARTIFACTS))


def properties(path: Path, settings: Mapping[str, object]) -> str:
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return str(path)


def command(main: str, *arguments: str) -> list[str]:
    return ["java", *FLAGS, "-cp", f"{jars()}/*", main, *arguments]


@contextmanager
def running(log: Path, main: str, *arguments: str) -> "Iterator[subprocess.Popen[bytes]]":
    """Killed in the end."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            command(main, *arguments), stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            cwd=log.parent, env=clean_environment(), preexec_fn=die_with_parent,
        )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def tool(main: str, *arguments: str, given: str = "") -> str:
    """What a tool printed; it must end well."""
    done = subprocess.run(
        command(main, *arguments), input=given, capture_output=True, text=True, timeout=TOOL_S,
        env=clean_environment(),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout
