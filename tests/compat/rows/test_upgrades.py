"""A cluster is upgraded from an earlier commit, and downgraded again, broker by broker and under load."""

from pathlib import Path

from tests.cluster.load import Load, check
from tests.cluster.real import RealCluster
from tests.compat import card, earlier
from tests.compat.card import Program
from tests.support.processes import OttlaProcess, running
from tests.support.waiting import wait_for

PROGRAM = Program("Ottla", earlier.EARLIEST, card.UPGRADES, "this repository, an earlier commit")
WITHIN_S = 60.0


def roll(cluster: RealCluster, load: Load, prefix: list[str]) -> None:
    """Every broker is stopped cleanly and started as another release; all are in sync, writes go on."""
    for broker in cluster.brokers.values():
        broker.stop()
        broker.prefix = prefix
        broker.start()
        cluster.wait_settled()
        before = load.acked
        wait_for(lambda count=before: load.acked > count + 100, WITHIN_S, f"writes go on after {broker.id}")


def test_up_and_down(watched: list[OttlaProcess], tmp_path: Path) -> None:
    """A rolling upgrade of three brokers under load, and the way back: nothing lost, nothing twice."""
    old = ["env", f"PYTHONPATH={earlier.source(tmp_path / 'earlier')}"]
    cluster = RealCluster(tmp_path)
    watched.extend(cluster.brokers.values())
    for broker in cluster.brokers.values():
        broker.prefix = old
    with running(cluster), cluster.explained():
        topic = cluster.create_topic("load", 3)
        with Load(cluster.bootstrap, topic, 3, rate=200) as load:
            roll(cluster, load, [])
            roll(cluster, load, old)
        history = load.finish()
        assert check(history) == []
        assert len(history.acked) > 600
