"""Importing ottla costs next to nothing."""

import subprocess
import sys

import pytest

import ottla

PROGRAM = """
import sys, time
began = time.process_time()
import ottla
taken_ms = (time.process_time() - began) * 1000
heavy = {"asyncio", "confluent_kafka", "rich", "typer", "ottla.shell", "ottla.testing"} & set(sys.modules)
print(taken_ms, *sorted(heavy))
"""


def test_importing_ottla_takes_less_than_100_ms_and_loads_nothing_heavy() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=30, check=True
    )
    taken_ms, *heavy = done.stdout.split()
    assert heavy == []
    assert float(taken_ms) < 100


def test_a_broker_starts_without_what_it_does_not_need() -> None:
    slow = '{"confluent_kafka", "ctypes", "importlib.metadata", "kazoo", "rich", "typer"}'
    program = f"import sys, ottla.shell.main; print(*sorted({slow} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == []


def test_the_broker_is_there_when_asked_for() -> None:
    from ottla.testing.embedded import Broker

    assert ottla.Broker is Broker
    assert "Broker" in ottla.__all__
    with pytest.raises(AttributeError, match="no attribute 'Brocker'"):
        _ = ottla.Brocker
