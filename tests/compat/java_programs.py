"""Kafka's own programs in Java that are no clients: Connect and MirrorMaker, run as their scripts do."""

import subprocess
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path

from bench.servers import clean_environment
from tests.compat import background, toolchains

VERSION = "4.3.1"
_ARTIFACTS = ("connect-runtime", "connect-file", "connect-mirror", "kafka-tools", "kafka_2.13")
FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xms32m", "-Xmx512m")
TOOL_S = 120.0


def jars() -> Path:
    return toolchains.jars("kafka", *(f"org.apache.kafka:{name}:{VERSION}" for name in _ARTIFACTS))


def properties(path: Path, settings: Mapping[str, object]) -> str:
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return str(path)


def command(main: str, *arguments: str) -> list[str]:
    return ["java", *FLAGS, "-cp", f"{jars()}/*", main, *arguments]


def running(log: Path, main: str, *arguments: str) -> AbstractContextManager[None]:
    return background.running(command(main, *arguments), log, clean_environment())


def tool(main: str, *arguments: str, given: str = "") -> str:
    """What a tool printed; it must end well."""
    done = subprocess.run(
        command(main, *arguments), input=given, capture_output=True, text=True, timeout=TOOL_S,
        env=clean_environment(),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout
