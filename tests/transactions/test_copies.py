"""Copies in transactions while processes are killed: every record once, in order (design note 015, 4.24).

`OTTLA_COPY_SEED` repeats a run; the seed of every run is printed. The long form is a command of its own, see
`tests/transactions/copies.py`.
"""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from bench import apache
from bench.servers import ROOT, PeerError, clean_environment
from tests.transactions import servers
from tests.transactions.confluent_copier import HUNG
from tests.transactions.copies import TIMEOUT_MS, Copied, Copy, Plan, check, coordinator_partition, value_of
from tests.transactions.servers import Brokers

# What is quick against Ottla is not against a JVM: it needs seconds to start again.
QUICK = {
    "confluent": Plan("confluent", 0, records=6_000, kills=4),
    "aiokafka": Plan("aiokafka", 0, records=4_000, kills=2),
    # It waits until the transaction of a killed one times out: it asks for stable offsets before it ends it.
    "java": Plan(
        "java",
        0,
        records=2_000,
        partitions=2,
        kills=2,
        transaction_timeout_ms=TIMEOUT_MS[servers.CHOSEN] // 2,
    ),
}


def copy_and_check(brokers: Brokers, plan: Plan, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if plan.client == "java":
        try:
            apache.fetch()
        except PeerError as error:
            pytest.skip(f"needs TransactionalMessageCopier of Apache Kafka: {error}")
    copied = Copy(brokers, plan, folder).run()
    with capsys.disabled():
        print(f"\ncopied by {copied}")
    assert check(copied) == [], f"seed {plan.seed}"


def seeded(plan: Plan, **changes: int) -> Plan:
    seed = int(os.environ.get("OTTLA_COPY_SEED", random.randrange(1 << 30)))
    return Plan(**{**vars(plan), **changes, "seed": seed})


@pytest.mark.parametrize("copier", QUICK)
def test_a_copy_holds_every_record_once_whoever_is_killed_faults_4_24(
    copier: str, server_jars: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with servers.serving() as brokers:
        copy_and_check(brokers, seeded(QUICK[copier]), tmp_path, capsys)


def test_a_copy_in_a_cluster_survives_the_loss_of_leaders_and_coordinators_faults_4_24(
    server_jars: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with servers.serving(count=3) as brokers:
        copy_and_check(brokers, seeded(QUICK["confluent"]), tmp_path, capsys)


def copied(committed: list[str], uncommitted: list[str], rest_s: float = 0.0) -> Copied:
    plan = Plan("confluent", 0, records=3, value_bytes=8, partitions=1)
    return Copied(plan, 1.0, [committed], [uncommitted], rest_s, 1, [], 1)


def test_the_check_tells_of_everything_that_must_not_be() -> None:
    first, second, third = whole = [value_of(0, number, 8) for number in range(3)]
    assert check(copied(whole, whole)) == []
    assert check(copied(whole, [first, *whole])) == []
    assert "more than once" in check(copied([first, second, second, third], whole))[0]
    assert "1 are missing, the first is 1" in check(copied([first, third], whole))[0]
    assert "out of order" in check(copied([first, third, second], whole))[0]
    assert "not sent to it" in check(copied([first, second, value_of(1, 2, 8)], whole))[0]
    assert "sees less" in check(copied(whole, [first, second]))[0]
    assert "rested for 21.0 s, 20 are allowed" in check(copied(whole, whole, rest_s=21.0))[0]


def test_a_copier_whose_call_outlasts_its_timeout_ends_itself() -> None:
    program = (
        "import time\n"
        "from tests.transactions.confluent_copier import HANG_SLACK_S, watched\n"
        "with watched(60): pass\n"
        "with watched(0.1 - HANG_SLACK_S): time.sleep(60)"
    )
    command = [sys.executable, "-c", program]
    assert subprocess.run(command, cwd=ROOT, env=clean_environment(), timeout=45).returncode == HUNG


def test_a_key_has_the_coordinator_partition_that_kafka_gives_it() -> None:
    """Of Java: "group".hashCode() is 98629247, that of "polygenelubricants" the smallest number."""
    assert coordinator_partition("group", 50) == 98629247 % 50
    assert coordinator_partition("polygenelubricants", 50) == 0
