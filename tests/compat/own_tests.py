"""Tests of this repository as steps of the card: those of programs that `make test` runs anyway."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from bench import apache
from bench.servers import PeerError

ROOT = Path(__file__).parents[2]
TESTS_S = 560.0
_SKIPPED = re.compile(r"^SKIPPED \[\d+\] \S+ (.+)$", re.MULTILINE)


def passes(*arguments: str) -> None:
    """These tests pass, and at least some of them could be run."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-rs", *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=TESTS_S,
    )  # fmt: skip
    if done.returncode == 0 and " passed" not in done.stdout.splitlines()[-1]:
        pytest.skip("; ".join(sorted(set(_SKIPPED.findall(done.stdout)))))
    assert done.returncode == 0, done.stdout[-2000:]


def kafka_version() -> str:
    """Of the Apache Kafka that these tests take; a skip where it cannot be had."""
    try:
        return apache.fetch()
    except PeerError as error:
        pytest.skip(str(error))
