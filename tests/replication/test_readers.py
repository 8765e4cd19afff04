"""Consumers of a replicated partition: from which replica they read, and how far."""

from typing import Any

import pytest
from tests.api.asking import batch, fetch_of, to, values
from tests.api.harness import Pending
from tests.replication.pump import TOPIC_ID, Cluster

from ottla.base.errors import ErrorCode
from ottla.broker.config import RACK_AWARE_SELECTOR
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

RACKS = {1: "a", 2: "b", 3: "c"}


def started(**properties: str) -> Cluster:
    spelled = {key.replace("_", "."): value for key, value in properties.items()}
    cluster = Cluster(racks=RACKS, properties={"replica.lag.time.max.ms": "3000", **spelled})
    cluster.topic("t", (1, 2, 3))
    cluster.run()
    return cluster


def produce(cluster: Cluster, *values: str, acks: int = -1) -> None:
    for value in values:
        cluster.client(1).ask(to("t", batch(value), acks=acks), 12)
        cluster.run()


def fetch(cluster: Cluster, broker: int, offset: int = 0, version: int = 12, **more: Any) -> Any:
    return cluster.client(broker).send(fetch_of(("t", 0, offset), **more), version).responses[0].partitions[0]


def list_offset(
    cluster: Cluster, timestamp: int, broker: int = 1, version: int = 5, replica: int = -1, epoch: int = -1
) -> Any:
    asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp, current_leader_epoch=epoch)
    topic = ListOffsetsTopic(name="t", partitions=[asked])
    request = ListOffsetsRequest(replica_id=replica, topics=[topic])
    return cluster.client(broker).as_broker(replica).send(request, version).topics[0].partitions[0]


def delete(cluster: Cluster, offset: int, timeout_ms: int = 5_000) -> Pending:
    asked = DeleteRecordsPartition(partition_index=0, offset=offset)
    topic = DeleteRecordsTopic(name="t", partitions=[asked])
    return cluster.client(1).ask(DeleteRecordsRequest(topics=[topic], timeout_ms=timeout_ms))


# From a follower (KIP-392)


def test_a_follower_serves_consumers_up_to_its_high_watermark() -> None:
    cluster = started()
    produce(cluster, "a", "b")
    cluster.pass_time(600)
    produce(cluster, "c")
    part = fetch(cluster, 2)
    assert (values(part), part.high_watermark) == (["a", "b"], 2), (
        "of c it does not know that it is committed"
    )
    assert values(fetch(cluster, 1)) == ["a", "b", "c"]


def test_a_consumer_that_is_too_old_for_followers_is_sent_to_the_leader() -> None:
    cluster = started()
    assert fetch(cluster, 2, version=10).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_follower_checks_the_epoch_of_its_readers() -> None:
    cluster = started()
    cluster.state("t", leader=1, leader_epoch=3)
    fenced = fetch(cluster, 2, current_leader_epoch=2)
    assert fenced.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert (fenced.current_leader.leader_id, fenced.current_leader.leader_epoch) == (1, 3)
    assert fetch(cluster, 2, current_leader_epoch=4).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert fetch(cluster, 2, current_leader_epoch=3).error_code == ErrorCode.NONE


def test_a_consumer_waits_at_a_follower_until_its_watermark_moves() -> None:
    cluster = started()
    waiting = cluster.client(2).ask(fetch_of(("t", 0, 0), max_wait_ms=5_000), 12)
    produce(cluster, "a")
    cluster.pass_time(600)
    assert values(waiting.answer.responses[0].partitions[0]) == ["a"]


def test_what_a_follower_has_not_got_yet_is_not_out_of_range() -> None:
    cluster = started()
    produce(cluster, "a", "b")
    cluster.pass_time(600)
    assert fetch(cluster, 2, offset=4).error_code == ErrorCode.OFFSET_NOT_AVAILABLE, "there may be more"
    assert fetch(cluster, 1, offset=4).error_code == ErrorCode.OFFSET_OUT_OF_RANGE, "there is not"


def test_the_leader_sends_a_consumer_to_the_replica_in_its_rack() -> None:
    cluster = started(replica_selector_class=RACK_AWARE_SELECTOR)
    produce(cluster, "a")
    part = fetch(cluster, 1, rack_id="b", max_wait_ms=500)
    assert (part.preferred_read_replica, values(part)) == (2, [])
    assert part.high_watermark == 1
    assert values(fetch(cluster, 2, rack_id="b", max_wait_ms=0)) == [], "it has not heard of the watermark"
    cluster.pass_time(600)
    assert values(fetch(cluster, 2, rack_id="b")) == ["a"]


@pytest.mark.parametrize("rack", ["a", "nowhere", ""])
def test_a_consumer_of_the_leaders_rack_or_of_none_stays(rack: str) -> None:
    cluster = started(replica_selector_class=RACK_AWARE_SELECTOR)
    produce(cluster, "a")
    part = fetch(cluster, 1, rack_id=rack)
    assert (part.preferred_read_replica, values(part)) == (-1, ["a"])


def test_without_a_selector_everybody_reads_from_the_leader() -> None:
    cluster = started()
    produce(cluster, "a")
    part = fetch(cluster, 1, rack_id="b")
    assert (part.preferred_read_replica, values(part)) == (-1, ["a"])


def test_a_replica_out_of_sync_or_behind_the_reader_is_not_preferred() -> None:
    cluster = started(replica_selector_class=RACK_AWARE_SELECTOR)
    produce(cluster, "a")
    cluster.cut(1, 2)
    produce(cluster, "b", acks=1)
    assert fetch(cluster, 1, offset=2, rack_id="b").preferred_read_replica == -1, "it has no offset 1 yet"
    assert fetch(cluster, 1, offset=1, rack_id="b").preferred_read_replica == 2
    cluster.state("t", isr=(1, 3))
    assert fetch(cluster, 1, offset=1, rack_id="b").preferred_read_replica == -1


# From a new leader (KIP-207)


def new_leader() -> Cluster:
    """Broker 2 leads, has two records, and knows only of the first that it is committed."""
    cluster = started()
    produce(cluster, "a")
    cluster.pass_time(600)
    produce(cluster, "b")
    cluster.cut(2, 3)
    cluster.kill(1)
    cluster.state("t", leader=2, leader_epoch=1, isr=(2, 3))
    return cluster


def test_the_end_is_not_available_until_the_watermark_has_reached_the_start_faults_2_11() -> None:
    cluster = new_leader()
    assert list_offset(cluster, -1, 2).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    assert list_offset(cluster, -1, 2, version=4).error_code == ErrorCode.LEADER_NOT_AVAILABLE
    assert list_offset(cluster, 1 << 60, 2).error_code == ErrorCode.OFFSET_NOT_AVAILABLE
    assert list_offset(cluster, 0, 2).offset == 0, "what is found below the watermark is true"
    assert list_offset(cluster, -2, 2).offset == 0
    cluster.heal()
    cluster.pass_time(1_000)
    assert list_offset(cluster, -1, 2).offset == 2


def test_a_consumer_at_a_new_leader_sees_no_less_than_it_has_seen_faults_2_11() -> None:
    cluster = new_leader()
    part = fetch(cluster, 2, offset=2)
    assert (part.error_code, part.high_watermark) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1), "it tries again"
    assert values(fetch(cluster, 2)) == ["a"]
    cluster.heal()
    cluster.pass_time(1_000)
    part = fetch(cluster, 2, offset=2)
    assert (part.error_code, part.high_watermark) == (ErrorCode.NONE, 2)


def test_a_follower_is_told_about_the_log_and_not_about_what_is_committed() -> None:
    cluster = new_leader()
    assert list_offset(cluster, -1, 2, replica=3).offset == 2


def test_only_the_leader_of_the_right_epoch_lists_offsets_faults_2_3() -> None:
    cluster = started()
    assert list_offset(cluster, -1, 2).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert list_offset(cluster, -1, 1, epoch=1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    cluster.state("t", leader=1, leader_epoch=1)
    assert list_offset(cluster, -1, 1, epoch=0).error_code == ErrorCode.FENCED_LEADER_EPOCH


def test_only_the_leader_of_the_right_epoch_tells_where_epochs_end_faults_2_3() -> None:
    cluster = started()
    produce(cluster, "a")
    cluster.state("t", leader=1, leader_epoch=1)

    def ask(broker: int, current: int) -> Any:
        asked = OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=0)
        topic = OffsetForLeaderTopic(topic="t", partitions=[asked])
        return (
            cluster.client(broker).send(OffsetForLeaderEpochRequest(topics=[topic])).topics[0].partitions[0]
        )

    assert ask(2, 1).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert ask(1, 0).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert ask(1, 2).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert (ask(1, 1).leader_epoch, ask(1, 1).end_offset) == (0, 1)


# DeleteRecords


def result(sent: Pending) -> tuple[int, int]:
    one = sent.answer.topics[0].partitions[0]
    return one.error_code, one.low_watermark


def test_records_are_deleted_when_all_in_sync_have_let_go_of_them() -> None:
    cluster = started()
    produce(cluster, "a", "b", "c")
    sent = delete(cluster, 2)
    assert sent.answer is None
    cluster.pass_time(1_500)
    assert result(sent) == (ErrorCode.NONE, 2)
    assert [cluster.partition(one).log.log_start_offset for one in (1, 2, 3)] == [2, 2, 2]


def test_a_replica_out_of_sync_does_not_hold_up_a_deletion() -> None:
    cluster = started()
    produce(cluster, "a", "b")
    cluster.kill(3)
    cluster.state("t", isr=(1, 2))
    sent = delete(cluster, -1)
    cluster.pass_time(1_500)
    assert result(sent) == (ErrorCode.NONE, 2)


def test_a_deletion_that_takes_too_long_says_so() -> None:
    cluster = started()
    produce(cluster, "a")
    cluster.cut(1, 2)
    sent = delete(cluster, 1, timeout_ms=700)
    cluster.pass_time(800)
    assert result(sent) == (ErrorCode.REQUEST_TIMED_OUT, -1)


def test_a_deletion_at_a_leader_that_is_deposed_says_so() -> None:
    cluster = started()
    produce(cluster, "a")
    sent = delete(cluster, 1)
    cluster.state("t", leader=2, leader_epoch=1)
    assert result(sent) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


# Hints (KIP-951)


def test_whoever_asks_the_wrong_broker_is_told_where_the_leader_is() -> None:
    cluster = Cluster(racks=RACKS)
    cluster.topic("t", (1, 2))
    sent = cluster.client(3).send(to("", batch("a"), topic_id=TOPIC_ID), 13)
    (answer,) = sent.responses[0].partition_responses
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (1, 0)
    assert [(one.node_id, one.host, one.port, one.rack) for one in sent.node_endpoints] == [
        (1, "host1", 9091, "a")
    ]
    fetched = cluster.client(3).send(fetch_of((TOPIC_ID, 0, 0)))
    assert fetched.responses[0].partitions[0].current_leader.leader_id == 1
    assert [one.node_id for one in fetched.node_endpoints] == [1]


def test_a_consumer_parked_at_a_deposed_leader_is_woken() -> None:
    cluster = started()
    waiting = cluster.client(1).ask(fetch_of(("t", 0, 0), max_wait_ms=60_000), 10)
    cluster.state("t", leader=2, leader_epoch=1)
    assert waiting.answer.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
