"""Whole clusters under faults, a seed each: five hundred, and every seed that ever failed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.sim.limits import SLOW_DISKS_FROM
from tests.sim.run import run, run_all
from tests.sim.world import METRICS_FROM, TRANSACTIONS_FROM

SEEDS = 300
FAILING_DISKS = range(1_000_000, 1_000_040)  # seeds with directories that fail
TRANSACTIONS = range(TRANSACTIONS_FROM, TRANSACTIONS_FROM + 20)
METRICS = range(METRICS_FROM, METRICS_FROM + 20)
SLOW_DISKS = range(SLOW_DISKS_FROM, SLOW_DISKS_FROM + 20)
SEEDS_FILE = Path(__file__).with_name("seeds.txt")
WORKERS = min(os.cpu_count() or 1, 4)


def known_seeds() -> list[int]:
    lines = (line.partition("#")[0].strip() for line in SEEDS_FILE.read_text().splitlines())
    return sorted({int(line) for line in lines if line})


@pytest.mark.timeout(1200)
def test_no_seed_finds_anything():
    acknowledged = committed = lags = disk_reads = 0
    seeds = sorted({*range(SEEDS), *FAILING_DISKS, *TRANSACTIONS, *METRICS, *SLOW_DISKS, *known_seeds()})
    for outcome in run_all(seeds, WORKERS):
        assert outcome.problem is None, outcome.report()
        acknowledged += outcome.counts["acknowledged"]
        committed += outcome.counts.get("transactions committed", 0)
        lags += outcome.counts.get("lags read", 0)
        disk_reads += outcome.counts.get("read from disk", 0)
    assert acknowledged > 50 * SEEDS, "a cluster that acknowledges nothing loses nothing"
    assert committed > 10 * len(TRANSACTIONS), "who commits nothing commits no half of anything"
    assert lags > 10 * len(METRICS), "who reads nothing reads nothing wrong"
    assert disk_reads > 10 * len(SLOW_DISKS), "a disk that nobody waits for is not slow"


def test_a_seed_gives_the_same_transcript_whatever_the_order_of_hashes():
    seeds = (3, 5, 2_000_000, 3_000_000, 4_000_000)
    script = f"from tests.sim.run import run; print([run(seed).digest for seed in {seeds}])"
    digests = set()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        )
        digests.add(done.stdout)
    assert len(digests) == 1


def test_a_seed_that_fails_says_how_to_see_it_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ottla.replication.partition.Partition.is_acknowledged", lambda *_: 1 / 0)
    outcome = run(0)
    assert outcome.problem is not None
    assert "ZeroDivisionError" in outcome.report()
    assert outcome.report().endswith("again: make sim SEED=0")
