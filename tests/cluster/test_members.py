"""Who may join a cluster, and who may not."""

import subprocess
import sys
import time
from pathlib import Path

from confluent_kafka import Producer
from tests.cluster.load import read_all
from tests.cluster.real import QUIET, SESSION_S, RealBroker, RealCluster
from tests.cluster.zookeeper import Ensemble
from tests.support.ports import free_ports
from tests.support.waiting import wait_for

WITHIN_S = 60.0


def refused(cluster: RealCluster, *arguments: str) -> str:
    """A start that must end by itself, with one line."""
    command = [
        sys.executable, "-m", "ottla.cli", "start", "--listen", f"127.0.0.1:{free_ports(1)[0]}",
        "--set", "zookeeper.session.timeout.ms=6000", *arguments,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S)
    assert (done.returncode, done.stdout) == (1, ""), done.stderr
    *_before, last = done.stderr.splitlines()
    assert last.startswith("ottla: ")
    return last


def test_a_second_broker_with_the_same_id_is_refused(cluster: RealCluster, tmp_path: Path) -> None:
    said = refused(
        cluster, "--zookeeper", f"{cluster.zookeeper.hosts}/ottla", "--id", "2", "--data", str(tmp_path)
    )
    assert f"broker id 2 is registered already by {cluster.brokers[2].address}" in said
    cluster.wait_settled()  # the first one was not disturbed: it would not register again by itself


def test_a_broker_of_another_cluster_is_refused(cluster: RealCluster, tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("version=0\nbroker.id=8\ncluster.id=ANOTHERCLUSTERANOTHERX\n")
    said = refused(
        cluster, "--zookeeper", f"{cluster.zookeeper.hosts}/ottla", "--id", "8", "--data", str(tmp_path)
    )
    assert "belongs to cluster ANOTHERCLUSTERANOTHERX, and ZooKeeper at" in said


def start_and_write(broker: RealBroker) -> None:
    broker.start()
    producer = Producer({"bootstrap.servers": broker.address, **QUIET})
    producer.produce("letters", b"0")
    assert producer.flush(30) == 0


def test_a_zookeeper_that_has_lost_its_nodes_costs_no_broker_its_logs(
    cluster: RealCluster, tmp_path: Path
) -> None:
    one = RealBroker(7, free_ports(1)[0], tmp_path, f"{cluster.zookeeper.hosts}/not-lost", {})
    try:
        start_and_write(one)
        one.stop()
        data = tmp_path / "data"
        said = refused(
            cluster, "--zookeeper", f"{cluster.zookeeper.hosts}/lost", "--id", "7", "--data", str(data)
        )
        assert "/lost knows nothing: is that the right address, with the right chroot?" in said
        assert (data / "letters-0").is_dir()
        one.start()
        assert [value for _place, value in read_all(one.address, "letters", 1)] == ["0"]
    finally:
        one.kill()


def test_a_broker_that_was_killed_may_come_back_before_its_session_is_over(
    cluster: RealCluster, tmp_path: Path
) -> None:
    settings = cluster.settings | {"zookeeper.session.timeout.ms": "10000"}  # the most that its ticks allow
    victim = RealBroker(1, free_ports(1)[0], tmp_path, f"{cluster.zookeeper.hosts}/came-back", settings)
    try:
        victim.start()
        victim.kill()
        (victim.data[0] / "incarnation").unlink()  # without it nothing tells whose the session is
        victim.start()
        assert "is there from an earlier session" in victim.log
    finally:
        victim.kill()


def test_a_broker_that_restarts_waits_for_zookeeper_as_long_as_that_is_away(
    cluster: RealCluster, tmp_path: Path
) -> None:
    session_s, linger_s = 8.0, 3.0
    zookeeper = Ensemble(tmp_path)
    settings = cluster.settings | {"zookeeper.session.timeout.ms": str(int(session_s * 1000))}
    victim = RealBroker(1, free_ports(1)[0], tmp_path / "broker", zookeeper.hosts, settings)
    try:
        zookeeper.start()
        victim.start()
        victim.kill()
        (victim.data[0] / "incarnation").unlink()  # without it nothing tells whose the session is
        victim.launch()
        wait_for(lambda: "is there from an earlier session" in victim.log, WITHIN_S, "it waits for itself")
        zookeeper.pause()
        wait_for(lambda: "is away; waiting for it" in victim.log, WITHIN_S, "it waits for ZooKeeper")
        began_s = time.monotonic()
        wait_for(lambda: time.monotonic() > began_s + session_s + linger_s, WITHIN_S, "a session and more")
        assert victim.is_running, victim.log[-3000:]
        zookeeper.resume()
        victim.wait_ready()
        victim.stop()
        zookeeper.kill(1)
        victim.launch()
        wait_for(lambda: "no ZooKeeper answers" in victim.log, WITHIN_S, "it says what it waits for")
        victim.stop()
        victim.launch()
        zookeeper.start()
        victim.wait_ready()
    finally:
        victim.kill()
        zookeeper.stop()


def test_brokers_that_start_at_once_found_one_cluster(cluster: RealCluster, tmp_path: Path) -> None:
    where = f"{cluster.zookeeper.hosts}/founded-at-once"
    brokers = [
        RealBroker(id + 1, port, tmp_path / str(id), where, cluster.settings)
        for id, port in enumerate(free_ports(3))
    ]
    try:
        for one in brokers:
            one.launch()
        for one in brokers:
            one.wait_ready()
        ids = {
            line.split("=")[1]
            for one in brokers
            for line in (one.folder / "data" / "meta.properties").read_text().splitlines()
            if line.startswith("cluster.id=")
        }
        assert len(ids) == 1
        for one in brokers:
            assert one.stop() < 30, "also where nobody is left to hand over to"
    finally:
        for one in brokers:
            if one.is_running:
                one.kill()


def test_a_second_signal_stops_a_broker_that_waits_for_others(cluster: RealCluster) -> None:
    stopped = cluster.brokers[1]
    cluster.zookeeper.pause()
    try:
        stopped.process.terminate()
        stopped.process.terminate()
        assert stopped.wait_ended(SESSION_S + WITHIN_S) == 0
    finally:
        cluster.zookeeper.resume()
    stopped.start()
    cluster.wait_settled()


def test_a_broker_of_its_own_founds_a_cluster_and_brings_its_topics(
    cluster: RealCluster, tmp_path: Path
) -> None:
    one = RealBroker(1, free_ports(1)[0], tmp_path, "", {"offsets.topic.num.partitions": "2"})
    try:
        start_and_write(one)
        one.stop()
        one.zookeeper = f"{cluster.zookeeper.hosts}/brought-along"
        for number in (1, 2):  # the second start is the one that would remove what is nobody's
            one.start()
            producer = Producer({"bootstrap.servers": one.address, "acks": "all", **QUIET})
            producer.produce("letters", str(number).encode())
            assert producer.flush(30) == 0
            one.stop()
        one.start()
        assert [value for _place, value in read_all(one.address, "letters", 1)] == ["0", "1", "2"]
    finally:
        one.kill()
