"""A log directory of one broker of a cluster fails: others lead in its place, and nothing that was
acknowledged is lost. The controller is a real one, on one of the brokers."""

import errno
import os.path
from typing import Any

import pytest
from tests.api.asking import batch, to
from tests.api.harness import Pending
from tests.log.simdisk import power_loss
from tests.replication.pump import Cluster
from tests.replication.test_cluster import code, log_of, produce

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.broker.effects import WriteNodes
from ottla.controller import znodes
from ottla.controller.keeper import Put, Unknown
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.metadata import MetadataRequest

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def started(*replicas: tuple[int, ...], brokers: tuple[int, ...] = (1, 2, 3), **configs: str) -> Cluster:
    """Topic `t`: partition 0 is in /a and partition 1 in /b, on every broker that has both."""
    cluster = Cluster(brokers, {"replica.lag.time.max.ms": "3000", "log.dirs": "/a,/b"})
    cluster.topic("t", *(replicas or (brokers, brokers)), **configs)
    cluster.give_seat()
    return cluster


def fail(cluster: Cluster, broker: int, id: TopicPartition = T0) -> None:
    """The disk under a replica fails, and is touched."""
    node = cluster.nodes[broker]
    home = node.broker.store.directory_of(id)
    node.disk.break_down(home, errno.EIO)
    node.broker.storage.failed(_error(cluster, broker, id))
    cluster.run()


def _error(cluster: Cluster, broker: int, id: TopicPartition) -> OSError:
    store = cluster.nodes[broker].broker.store
    try:
        store.disks[store.directory_of(id)].list(os.path.join(store.directory_of(id), str(id)))
    except OSError as error:
        return error
    raise AssertionError("the disk is well")


def told(cluster: Cluster, broker: int) -> dict[str, list[int]] | None:
    """What the broker's node says is lost."""
    found = cluster.keeper.nodes.get(znodes.OFFLINE + str(broker))
    return None if found is None else znodes.parse(found[0])["topics"]  # type: ignore[no-any-return]


def return_with_good_disk(cluster: Cluster, broker: int) -> None:
    node = cluster.nodes[broker]
    node.disk.repair()
    node.now_ms = cluster.now_ms
    node.start()
    cluster.register(broker, is_clean=node.broker.is_clean)
    cluster.pass_time(5_000)


def values(cluster: Cluster, broker: int) -> list[str]:
    return [value for _, _, value in log_of(cluster, broker)]


def test_another_replica_leads_where_a_leaders_directory_failed_and_nothing_acknowledged_is_lost() -> None:
    cluster = started(min_insync_replicas="2")
    first = produce(cluster, 1, "a", "b")
    cluster.run()
    assert code(first) == ErrorCode.NONE
    cluster.nodes[1].disk.break_down("/a", errno.EIO)
    refused = produce(cluster, 1, "c")
    cluster.run()
    assert code(refused) == ErrorCode.KAFKA_STORAGE_ERROR
    assert told(cluster, 1) == {"t": [0]}
    state = cluster.states("t")[0]
    assert (state.leader, state.leader_epoch, state.isr) == (2, 1, (2, 3))
    assert cluster.states("t")[1].leader == 1, "the other directory serves on"
    second = produce(cluster, 2, "d")
    cluster.run()
    assert code(second) == ErrorCode.NONE
    assert values(cluster, 2) == values(cluster, 3) == ["a", "b", "d"]


def test_what_waits_for_followers_is_not_acknowledged_when_the_directory_fails() -> None:
    cluster = started()
    cluster.cut(1, 2)
    cluster.cut(1, 3)
    cluster.run()
    sent = produce(cluster, 1, "a")
    assert sent.answer is None
    fail(cluster, 1)
    assert code(sent) == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_follower_whose_directory_fails_under_an_answer_follows_the_rest() -> None:
    cluster = started((1, 2), (1, 2), brokers=(1, 2), min_insync_replicas="1")
    cluster.nodes[2].disk.break_down("/a", errno.EIO)
    sent = cluster.client(1).ask(to("t", batch("a"), batch("b"), acks=-1), 12)
    cluster.run()
    cluster.pass_time(1_000)
    assert [one.error_code for one in sent.answer.responses[0].partition_responses] == [0, 0]
    assert told(cluster, 2) == {"t": [0]}
    assert [cluster.states("t")[p].isr for p in (0, 1)] == [(1,), (1, 2)]
    assert cluster.partition(2, index=1).log.log_end_offset == 1
    cluster.sent.clear()
    cluster.pass_time(2_000)
    asked = [
        one for _, _, request in cluster.sent if isinstance(request, FetchRequest) for one in request.topics
    ]
    assert all(one.partition == 1 for topic in asked for one in topic.partitions)


def test_metadata_of_every_broker_shows_the_replica_as_offline() -> None:
    cluster = started()
    fail(cluster, 1)
    for broker in (1, 2, 3):
        found = cluster.client(broker).send(MetadataRequest(topics=None)).topics[0].partitions[0]
        assert (found.leader_id, found.isr_nodes, found.offline_replicas) == (2, [2, 3], [1])


def test_a_restart_with_a_good_disk_brings_the_replica_back() -> None:
    cluster = started()
    produce(cluster, 1, "a")
    cluster.run()
    fail(cluster, 1)
    produce(cluster, 2, "b")
    cluster.run()
    cluster.stop(1)
    return_with_good_disk(cluster, 1)
    assert not cluster.nodes[1].broker.is_clean, "one of its directories was not closed"
    assert told(cluster, 1) is None
    assert sorted(cluster.states("t")[0].isr) == [1, 2, 3]
    assert values(cluster, 1) == ["a", "b"]


def test_a_directory_that_is_offline_at_the_start_is_said_with_the_registration() -> None:
    cluster = started()
    produce(cluster, 1, "a")
    cluster.run()
    cluster.stop(1)
    node = cluster.nodes[1]
    node.disk.break_down("/a", errno.EIO)
    node.start()
    assert node.broker.is_clean, "what is there was closed cleanly"
    assert node.broker.store.lost.keys() == {T0}
    cluster.register(1)
    cluster.pass_time(2_000)
    assert told(cluster, 1) == {"t": [0]}
    assert T0 not in node.broker.store.logs, "it is not made anew in the other directory"
    assert 1 not in cluster.states("t")[0].isr
    assert 1 in cluster.states("t")[1].isr
    cluster.stop(1)
    return_with_good_disk(cluster, 1)
    assert told(cluster, 1) is None
    assert 1 in cluster.states("t")[0].isr
    assert values(cluster, 1) == ["a"]


def test_the_only_replica_in_sync_is_waited_for_and_comes_back_with_its_log() -> None:
    cluster = started((1,), (1,))
    produce(cluster, 1, "a")
    cluster.run()
    fail(cluster, 1)
    assert cluster.states("t")[0].leader == -1
    cluster.stop(1)
    return_with_good_disk(cluster, 1)
    assert cluster.states("t")[0].leader == 1
    assert values(cluster, 1) == ["a"]


def test_a_state_that_names_a_lost_replica_does_not_make_it_anew() -> None:
    cluster = started()
    fail(cluster, 1)
    epoch = cluster.states("t")[0].leader_epoch
    cluster.state("t", 0, leader=1, leader_epoch=epoch + 1, isr=(1, 2, 3))
    cluster.run()
    assert T0 not in cluster.nodes[1].broker.store.logs
    assert code(produce(cluster, 1, "x")) == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_lost_replica_that_is_taken_away_is_no_longer_said_and_may_come_again() -> None:
    cluster = started((1, 2), (1, 2), brokers=(1, 2, 3))
    produce(cluster, 1, "a")
    cluster.run()
    fail(cluster, 1)
    reassign(cluster, (2, 3))
    assert told(cluster, 1) == {}
    assert cluster.nodes[1].broker.store.lost == {}
    reassign(cluster, (1, 2))
    cluster.pass_time(3_000)
    assert cluster.nodes[1].broker.store.directory_of(T0) == "/b"
    assert values(cluster, 1) == ["a"]


def reassign(cluster: Cluster, replicas: tuple[int, ...]) -> None:
    topic = cluster.nodes[1].broker.image.topics["t"]
    assignment = {**topic.assignment, 0: replicas}
    cluster.write(Put(znodes.topic_path("t"), znodes.topic_node(topic.id, assignment)))
    cluster.pass_time(1_000)


def test_a_new_session_says_it_again() -> None:
    cluster = started()
    produce(cluster, 1, "a")
    cluster.run()
    fail(cluster, 1)
    cluster.end_session(1)
    assert told(cluster, 1) is None
    assert 1 in cluster.nodes[2].broker.image.offline or 1 not in cluster.nodes[2].broker.image.brokers
    cluster.register(1)
    cluster.pass_time(1_000)
    assert told(cluster, 1) == {"t": [0]}
    assert (cluster.states("t")[0].leader, 1 in cluster.states("t")[0].isr) == (2, False)


@pytest.mark.parametrize("is_written", [False, True])
def test_a_write_without_an_answer_is_tried_until_it_shows(
    is_written: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = started()
    write, lost = cluster.keeper.write, list[Any]()

    def losing(operations: Any, session: Any) -> Any:
        operations = list(operations)
        if not lost and any(one.path == znodes.OFFLINE + "1" for one in operations):
            lost.append(operations)
            return (write(operations, session)[0] if is_written else []), Unknown("lost")
        return write(operations, session)

    monkeypatch.setattr(cluster.keeper, "write", losing)
    fail(cluster, 1)
    assert (told(cluster, 1) is not None) == is_written
    cluster.pass_time(500)
    assert lost
    assert told(cluster, 1) == {"t": [0]}
    assert cluster.states("t")[0].leader == 2


def test_it_is_not_written_into_a_session_in_which_the_broker_is_not_registered() -> None:
    cluster = started()
    cluster.make_deaf(1)
    cluster.end_session(1)
    fail(cluster, 1)
    cluster.pass_time(500)
    assert told(cluster, 1) is None
    cluster.hear(1)
    cluster.register(1)
    cluster.pass_time(500)
    assert told(cluster, 1) == {"t": [0]}


def test_the_last_directory_stops_the_broker_and_others_lead() -> None:
    cluster = started()
    fail(cluster, 1, T0)
    fail(cluster, 1, T1)
    assert cluster.nodes[1].halted
    cluster.kill(1, power_loss)
    cluster.pass_time(1_000)
    assert [cluster.states("t")[p].leader for p in (0, 1)] == [2, 2]


def test_nothing_is_written_while_nothing_is_lost() -> None:
    cluster = started()
    cluster.pass_time(1_000)
    broker = cluster.nodes[1].broker
    broker.notice.pump()
    assert not any(isinstance(effect, WriteNodes) for effect in broker.outbox.effects)
    assert told(cluster, 1) is None


# AlterReplicaLogDirs


def move(cluster: Cluster, broker: int, directory: str) -> ErrorCode:
    topic = AlterReplicaLogDirTopic(name="t", partitions=[0])
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=directory, topics=[topic])])
    return ErrorCode(cluster.client(broker).send(request).results[0].partitions[0].error_code)


@pytest.mark.parametrize("broker", [1, 2])
def test_a_replica_moves_between_directories_while_it_is_followed_or_follows(broker: int) -> None:
    cluster = started((1, 2), (1, 2), brokers=(1, 2), segment_bytes="300")
    sent: list[Pending] = []
    for number in range(6):
        sent.append(produce(cluster, 1, f"{number}" * 50))
        cluster.run()
    assert move(cluster, broker, "/b") == ErrorCode.NONE
    for number in range(6):
        sent.append(produce(cluster, 1, f"{number}" * 50))
        cluster.pass_time(100)
    cluster.pass_time(2_000)
    assert cluster.nodes[broker].broker.store.directory_of(T0) == "/b"
    sent.append(produce(cluster, 1, "last"))
    cluster.run()
    assert {code(one) for one in sent} == {ErrorCode.NONE}
    assert values(cluster, 1) == values(cluster, 2)
    assert cluster.partition(1).isr == (1, 2)
    assert cluster.partition(1).high_watermark == 13


def test_a_follower_that_is_cut_while_it_moves_begins_the_move_anew() -> None:
    cluster = started((1, 2), (1, 2), brokers=(1, 2))
    produce(cluster, 1, "a")
    cluster.run()
    cluster.cut(1, 2)
    produce(cluster, 1, "only here", acks=1)
    assert move(cluster, 1, "/b") == ErrorCode.NONE
    epoch = cluster.states("t")[0].leader_epoch
    cluster.state("t", 0, leader=2, leader_epoch=epoch + 1, isr=(2,))
    cluster.heal()
    cluster.run()
    produce(cluster, 2, "b")
    cluster.pass_time(5_000)
    assert cluster.nodes[1].broker.store.directory_of(T0) == "/b"
    assert values(cluster, 1) == values(cluster, 2) == ["a", "b"]
