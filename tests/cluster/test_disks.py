"""One of several log directories of a broker fails, in real processes under load."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.load import Load
from tests.cluster.real import SESSION_S, RealBroker, RealCluster
from tests.cluster.secured import cluster_for_faults
from tests.cluster.test_faults import SLACK_S, flows_again, survive
from tests.support.waiting import wait_for

CHECKPOINT_MS = 500


@pytest.fixture
def two_disks(tmp_path: Path) -> Iterator[RealCluster]:
    settings = {"replica.high.watermark.checkpoint.interval.ms": str(CHECKPOINT_MS)}
    made = cluster_for_faults(tmp_path, settings=settings)
    for one in made.brokers.values():
        one.data = [one.folder / "disk-1", one.folder / "disk-2"]
    try:
        made.start()
        with made.explained():
            yield made
    finally:
        made.stop()


def take_away(broker: RealBroker, disk: Path) -> None:
    """What is open stays open; what is to be made or written anew fails."""
    disk.rename(disk.with_name("away"))
    disk.write_text("a file where a folder was mounted")
    wait_for(lambda: f"{disk} is offline" in broker.log, 20, "the directory is offline")


def put_back(disk: Path) -> None:
    disk.unlink()
    disk.with_name("away").rename(disk)


def test_a_directory_that_fails_under_a_leader_costs_its_leadership_and_nothing_else(
    two_disks: RealCluster,
) -> None:
    def fault(topic: str, load: Load) -> None:
        victim = two_disks.brokers[two_disks.leader(topic)]
        disk = next(one for one in victim.data if (one / f"{topic}-0").exists())
        take_away(victim, disk)
        wait_for(lambda: two_disks.leader(topic) != victim.id, 20, "another one leads")
        flows_again(load)
        victim.stop()
        victim.start()
        assert f"{disk} is offline until the next start" in victim.log
        flows_again(load)
        assert two_disks.leader(topic) != victim.id
        victim.stop()
        put_back(disk)
        victim.start()
        two_disks.wait_settled()

    survive(two_disks, "disk", fault, SESSION_S + SLACK_S)
