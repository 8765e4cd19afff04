"""A cluster is upgraded from an earlier commit, and downgraded again, broker by broker and under load."""

from pathlib import Path

from confluent_kafka import Producer
from tests.cluster.load import Load, check
from tests.cluster.real import RealCluster
from tests.compat import card, earlier, java_programs
from tests.compat.card import Program
from tests.compat.watched_topic import QUIET, WatchedTopic
from tests.support.processes import OttlaProcess, running
from tests.support.waiting import wait_for

PROGRAM = Program("Ottla", earlier.EARLIEST, card.UPGRADES, "this repository, an earlier commit")
WITHIN_S = 60.0
TRANSACTIONS = {"transaction.state.log.num.partitions": "1", "transaction.state.log.min.isr": "2"}


def roll(cluster: RealCluster, load: Load, prefix: list[str]) -> None:
    """Every broker is stopped cleanly and started as another release; all are in sync, writes go on."""
    for broker in cluster.brokers.values():
        broker.stop()
        broker.prefix = prefix
        broker.start()
        cluster.wait_settled()
        before = load.acked
        wait_for(lambda count=before: load.acked > count + 100, WITHIN_S, f"writes go on after {broker.id}")
        transact(cluster)


def transact(cluster: RealCluster) -> None:
    """One transaction; the id has been used before, so its coordinator goes on with what was stored."""
    settings = {"bootstrap.servers": cluster.bootstrap, "transactional.id": "ledger", **QUIET}
    producer = Producer(settings)
    producer.init_transactions(WITHIN_S)
    producer.begin_transaction()
    producer.produce("ledger", "entry")
    producer.commit_transaction(WITHIN_S)


def change_level(cluster: RealCluster, verb: str, level: int) -> None:
    """As an operator does, with kafka-features."""
    command = ("--bootstrap-server", cluster.bootstrap, verb, "--feature", f"transaction.version={level}")
    said = java_programs.tool("org.apache.kafka.tools.FeatureCommand", *command)
    assert f"was {verb}d to {level}" in said


def test_up_and_down(watched: list[OttlaProcess], tmp_path: Path) -> None:
    """Three brokers upgraded under load, transaction.version raised last, and the way back: nothing lost."""
    old = ["env", f"PYTHONPATH={earlier.source(tmp_path / 'earlier')}"]
    cluster = RealCluster(tmp_path, settings=TRANSACTIONS)
    watched.extend(cluster.brokers.values())
    for broker in cluster.brokers.values():
        broker.prefix = old
    with running(cluster), cluster.explained():
        topic = cluster.create_topic("load", 3)
        cluster.create_topic("ledger", 1)
        transact(cluster)
        change_level(cluster, "downgrade", 1)
        with Load(cluster.bootstrap, topic, 3, rate=200) as load:
            roll(cluster, load, [])
            change_level(cluster, "upgrade", 2)
            transact(cluster)
            change_level(cluster, "downgrade", 1)
            roll(cluster, load, old)
        history = load.finish()
        assert check(history) == []
        assert len(history.acked) > 600
        with WatchedTopic(cluster.bootstrap, "ledger") as ledger:
            wait_for(lambda: len(ledger.values) >= 8, WITHIN_S, lambda: f"8, not {len(ledger.values)}")
        assert ledger.values == ["entry"] * 8
