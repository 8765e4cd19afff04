"""Records in `__consumer_offsets` that nobody can read halt no leader, however often it changes."""

import subprocess
import sys
import uuid
from functools import partial

from tests.cluster.real import RealBroker, RealCluster
from tests.group.forgeries import UNREADABLE
from tests.support.forging import forge
from tests.support.waiting import wait_for

from ottla.base.ids import OFFSETS_TOPIC, TopicPartition
from ottla.broker.internal_partitions import java_hash
from ottla.client import Client
from ottla.client.errors import ClientError

SHARDS = 4  # as `real` sets it


def shard_of(group: str) -> int:
    return abs(java_hash(group)) % SHARDS


def can_commit(cluster: RealCluster, group: str, place: TopicPartition, offset: int) -> bool:
    with Client(cluster.bootstrap, timeout_s=2) as client:
        try:
            client.commit_offsets(group, {place: offset})
        except ClientError:
            return False
    return True


def is_led_by_another(cluster: RealCluster, id: TopicPartition, than: int) -> bool:
    return cluster.leader(*id) != than


def says(broker: RealBroker, line: str) -> bool:
    return line in broker.log


def test_forged_records_halt_no_leader_and_are_skipped_for_all_of_them(cluster: RealCluster) -> None:
    place = TopicPartition(cluster.create_topic(f"read-{uuid.uuid4().hex[:6]}", 1), 0)
    names = [f"g-{uuid.uuid4().hex[:8]}" for _ in range(40)]
    hit = next(name for name in names if shard_of(name) == 0)
    other = next(name for name in names if shard_of(name) == 1)
    for group in (hit, other):
        wait_for(partial(can_commit, cluster, group, place, 1), 60, "the first commit")
    bad = TopicPartition(OFFSETS_TOPIC, 0)
    cluster.wait_settled()
    for broker in cluster.brokers.values():
        broker.stop()
    records = [UNREADABLE["an empty key"], UNREADABLE["a value that is cut off"]]
    folders = [broker.data[0] / str(bad) for broker in cluster.brokers.values()]
    (offset,) = {forge(folder, *records) for folder in folders if folder.is_dir()}  # not all have a replica
    for broker in cluster.brokers.values():
        broker.launch()
    for broker in cluster.brokers.values():
        broker.wait_ready()
    cluster.wait_settled()
    for now in (2, 3):
        victim = cluster.brokers[cluster.leader(*bad)]
        wait_for(partial(says, victim, f"the groups stored in {bad} are not served"), 60, "its line")
        assert f"offset {offset}: " in victim.log
        victim.kill()
        wait_for(partial(can_commit, cluster, other, place, now), 60, "others are served")
        wait_for(partial(is_led_by_another, cluster, bad, victim.id), 60, "the next leader")
        assert not can_commit(cluster, hit, place, now)
        assert all(broker.is_running for broker in cluster.brokers.values() if broker is not victim)
        victim.start()
        cluster.wait_settled()
    command = ["skip", str(bad), str(offset), str(offset + 1), "--yes", "--bootstrap", cluster.bootstrap]
    done = subprocess.run(
        [sys.executable, "-m", "ottla.cli", *command],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    wait_for(lambda: can_commit(cluster, hit, place, 4), 60, "the group is served again")
    victim = cluster.brokers[cluster.leader(*bad)]
    victim.kill()
    try:
        wait_for(lambda: can_commit(cluster, hit, place, 5), 60, "and by the next leader")
    finally:
        victim.start()
