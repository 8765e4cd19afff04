"""Brokers that replicate, joined by the pump: what a leader acknowledges survives what befalls brokers.

The names of rules and rows are those of design note 015.
"""

from typing import Any

import pytest
from tests.api.asking import batch, fetch_of, idempotent, to
from tests.api.harness import Pending
from tests.log.simdisk import power_loss
from tests.replication.pump import TOPIC_ID, Cluster

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.broker.effects import SyncLog
from ottla.controller import znodes
from ottla.controller.keeper import Create, Delete, NodeChanged, Put
from ottla.records.batch import split
from ottla.records.record import read_records
from ottla.wire.messages.fetch import FetchRequest, ReplicaState
from ottla.wire.messages.list_offsets import ListOffsetsRequest


def started(brokers: tuple[int, ...] = (1, 2, 3), **configs: str) -> Cluster:
    cluster = Cluster(brokers, {"replica.lag.time.max.ms": "3000"})
    cluster.topic("t", brokers, **configs)
    cluster.run()
    return cluster


def produce(cluster: Cluster, broker: int, *values: str, acks: int = -1, timeout_ms: int = 60_000) -> Pending:
    """Sent, and perhaps answered."""
    return cluster.client(broker).ask(to("t", batch(*values), acks=acks, timeout_ms=timeout_ms), 12)


def code(sent: Pending) -> ErrorCode | None:
    return None if sent.answer is None else ErrorCode(part(sent).error_code)


def part(sent: Pending) -> Any:
    return sent.answer.responses[0].partition_responses[0]


def log_of(cluster: Cluster, broker: int) -> list[tuple[int, int, str]]:
    """(epoch, offset, value) of every record."""
    log = cluster.partition(broker).log
    found = log.read(log.log_start_offset, 1 << 20, end=log.log_end_offset).records
    return [
        (header.leader_epoch, record.offset, (record.value or b"").decode())
        for header, one in split(memoryview(found))
        for record in read_records(one, header)
    ]


def fetches(cluster: Cluster) -> list[tuple[int, int, FetchRequest]]:
    return [sent for sent in cluster.sent if isinstance(sent[2], FetchRequest)]


# Copying


def test_what_the_leader_has_is_copied_and_then_committed() -> None:
    cluster = started((1, 2))
    sent = produce(cluster, 1, "a", "b")
    assert sent.answer is None, "the follower has nothing yet"
    cluster.run()
    assert (code(sent), part(sent).base_offset) == (ErrorCode.NONE, 0)
    assert log_of(cluster, 2) == log_of(cluster, 1) == [(0, 0, "a"), (0, 1, "b")]
    assert cluster.partition(1).high_watermark == 2


def test_acks_1_does_not_wait_for_followers() -> None:
    cluster = started()
    assert code(produce(cluster, 1, "a", acks=1)) == ErrorCode.NONE
    assert cluster.partition(1).high_watermark == 0


def test_a_follower_learns_the_high_watermark_with_its_next_answer() -> None:
    cluster = started()
    produce(cluster, 1, "a")
    cluster.run()
    assert cluster.partition(1).high_watermark == 1
    cluster.pass_time(600)
    assert [cluster.partition(one).high_watermark for one in (2, 3)] == [1, 1]


def test_only_what_is_new_travels_in_a_session() -> None:
    cluster = Cluster((1, 2))
    cluster.topic("t", (1, 2), (1, 2), (1, 2))
    cluster.run()
    first = fetches(cluster)[0][2]
    assert [len(topic.partitions) for topic in first.topics] == [3]
    follower = ReplicaState(replica_id=2, replica_epoch=cluster.epochs((2,))[0])
    assert (first.session_epoch, first.replica_state) == (0, follower)
    cluster.sent.clear()
    produce(cluster, 1, "a")
    cluster.run()
    _, _, second = fetches(cluster)[0]
    assert second.session_epoch == 1
    assert [(one.partition, one.fetch_offset) for one in second.topics[0].partitions] == [(0, 1)]


def test_one_fetch_is_under_way_for_each_leader() -> None:
    cluster = Cluster()
    cluster.topic("t", (1, 3), (2, 3), (1, 3))
    cluster.run()
    assert sorted(peer for sender, peer, _ in fetches(cluster) if sender == 3) == [1, 2]


def test_a_session_the_leader_has_forgotten_begins_again() -> None:
    cluster = started((1, 2))
    cluster.nodes[1].broker.sessions.by_id.clear()
    sent = produce(cluster, 1, "a")
    cluster.run()
    assert code(sent) == ErrorCode.NONE


def test_a_follower_that_must_sync_asks_for_more_only_then_flush_messages() -> None:
    cluster = started((1, 2), flush_messages="1")
    cluster.nodes[2].hold(SyncLog)
    sent = produce(cluster, 1, "a")
    cluster.run()
    cluster.pass_time(1_000)
    assert cluster.partition(2).log.log_end_offset == 1
    assert sent.answer is None, "what is not on the follower's disk is not acknowledged"
    cluster.nodes[2].release()
    cluster.run()
    assert code(sent) == ErrorCode.NONE


def test_records_a_leader_deletes_are_deleted_by_its_followers() -> None:
    cluster = started((1, 2))
    produce(cluster, 1, "a", "b", "c")
    cluster.run()
    cluster.partition(1).delete_records(2)
    cluster.pass_time(1_200)
    assert cluster.partition(2).log.log_start_offset == 2


def test_a_follower_that_ends_before_its_leader_begins_starts_over_there() -> None:
    cluster = started((1, 2))
    produce(cluster, 1, "a", "b")
    cluster.run()
    cluster.kill(2)
    cluster.state("t", isr=(1,))
    for value in "cdef":
        produce(cluster, 1, value)
    cluster.partition(1).delete_records(5)
    cluster.start(2, is_clean=False)
    cluster.pass_time(600)
    assert any(isinstance(request, ListOffsetsRequest) for _, _, request in cluster.sent)
    log = cluster.partition(2).log
    assert (log.log_start_offset, log.log_end_offset) == (5, 6)
    assert set(cluster.states("t")[0].isr) == {1, 2}


# The ISR


def test_a_silent_follower_leaves_the_isr_and_returns_when_it_has_caught_up() -> None:
    cluster = started()
    cluster.cut(1, 3)
    sent = produce(cluster, 1, "a")
    cluster.run()
    assert sent.answer is None
    cluster.pass_time(5_000)
    assert cluster.states("t")[0].isr == (1, 2)
    assert code(sent) == ErrorCode.NONE
    cluster.heal()
    cluster.pass_time(2_000)
    assert cluster.states("t")[0].isr == (1, 2, 3)
    assert log_of(cluster, 3) == log_of(cluster, 1)


def test_a_follower_that_had_nothing_to_do_for_long_is_not_late_at_the_next_record() -> None:
    cluster = started()
    produce(cluster, 1, "a")
    cluster.pass_time(20_000)
    cluster.sent.clear()
    cluster.pass_time(1_000)
    assert 2 <= len(fetches(cluster)) <= 8, "nor does it ask more often than it must"
    cluster.cut(1, 3)
    sent = produce(cluster, 1, "b")
    cluster.pass_time(1_500)
    assert (cluster.states("t")[0].isr, sent.answer) == ((1, 2, 3), None)
    cluster.heal()
    cluster.pass_time(1_500)
    assert code(sent) == ErrorCode.NONE


def test_with_too_few_in_sync_nothing_is_acknowledged_faults_4_7() -> None:
    cluster = started(min_insync_replicas="2")
    cluster.cut(1, 2)
    cluster.cut(1, 3)
    sent = produce(cluster, 1, "a")
    cluster.pass_time(5_000)
    assert cluster.states("t")[0].isr == (1,)
    assert code(sent) == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert code(produce(cluster, 1, "b")) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert cluster.partition(1).high_watermark == 0, "one replica is not enough to commit (faults 2.7)"
    cluster.heal()
    cluster.pass_time(3_000)
    assert cluster.states("t")[0].isr == (1, 2, 3)
    assert cluster.partition(1).high_watermark == 1


def test_a_proposal_without_an_answer_is_sent_again() -> None:
    cluster = started((1, 2))
    cluster.is_deciding = False
    cluster.cut(1, 2)
    produce(cluster, 1, "a")
    cluster.pass_time(5_000)
    (proposal,) = cluster.proposals
    cluster._answer(1, proposal.token, None)
    cluster.pass_time(100)
    again = cluster.proposals[1]
    assert again.request == proposal.request
    assert cluster.partition(1).high_watermark == 0
    cluster.settle(again)
    assert cluster.partition(1).high_watermark == 1


def test_a_proposal_whose_answer_is_lost_counts_until_the_state_is_seen() -> None:
    cluster = started()
    cluster.state("t", isr=(1, 2))
    cluster.is_deciding = False
    cluster.pass_time(600)
    (proposal,) = cluster.proposals
    cluster.make_deaf(1)
    cluster.settle(proposal)
    cluster.cut(1, 3)
    sent = produce(cluster, 1, "a")
    cluster.pass_time(1_000)
    assert cluster.partition(2).log.log_end_offset == 1
    assert sent.answer is None, "broker 3 is in the ISR, whether we know it or not"
    cluster.hear(1)
    assert cluster.partition(1).isr == (1, 2, 3)


def test_a_refused_proposal_is_taken_back() -> None:
    cluster = started()
    cluster.decide = lambda _one: ErrorCode.INELIGIBLE_REPLICA
    cluster.state("t", isr=(1, 2))
    cluster.pass_time(600)
    cluster.cut(1, 3)
    sent = produce(cluster, 1, "a")
    cluster.pass_time(200)
    assert code(sent) == ErrorCode.NONE


# Leaders come and go


def test_a_new_leader_goes_on_with_all_that_was_acknowledged_faults_2_1() -> None:
    """The follower knows less of the high watermark than was acknowledged: it must not cut its log there."""
    cluster = started()
    sent = produce(cluster, 1, "a", "b")
    cluster.run()
    assert code(sent) == ErrorCode.NONE
    assert cluster.partition(2).high_watermark == 0, "one fetch behind"
    cluster.kill(1)
    cluster.state("t", leader=2, leader_epoch=1, isr=(2, 3))
    cluster.pass_time(1_200)
    assert log_of(cluster, 2) == log_of(cluster, 3) == [(0, 0, "a"), (0, 1, "b")]
    assert cluster.partition(2).high_watermark == 2


def test_a_restarted_follower_keeps_what_it_has_faults_2_1() -> None:
    cluster = started()
    produce(cluster, 1, "a", "b")
    cluster.run()
    cluster.cut(1, 2)
    cluster.crash(2)
    cluster.kill(1)
    assert cluster.partition(2).log.log_end_offset == 2


def test_what_only_the_old_leader_had_is_cut_off_by_epoch_faults_1_rule_1() -> None:
    cluster = started()
    produce(cluster, 1, "a")
    cluster.run()
    cluster.cut(1, 2)
    cluster.cut(1, 3)
    produce(cluster, 1, "only here", acks=1)
    cluster.state("t", leader=2, leader_epoch=1, isr=(2, 3))
    cluster.run()
    produce(cluster, 2, "b")
    cluster.run()
    cluster.heal()
    cluster.pass_time(2_000)
    assert log_of(cluster, 1) == log_of(cluster, 2) == [(0, 0, "a"), (1, 1, "b")]
    assert cluster.states("t")[0].isr == (1, 2, 3)


def test_logs_that_part_more_than_once_are_cut_until_they_match_faults_2_2() -> None:
    """Epochs 1 and 2 had leaders with records of their own, and one that wrote nothing (PR 5678)."""
    cluster = started()
    produce(cluster, 1, "a")
    cluster.run()
    for one, other in ((1, 2), (1, 3), (2, 3)):
        cluster.cut(one, other)
    produce(cluster, 1, "1", "1", acks=1)
    cluster.state("t", leader=2, leader_epoch=1)
    produce(cluster, 2, "2", acks=1)
    cluster.state("t", leader=1, leader_epoch=2)
    produce(cluster, 1, "1", acks=1)
    cluster.state("t", leader=2, leader_epoch=3)
    cluster.state("t", leader=1, leader_epoch=4)
    cluster.state("t", leader=3, leader_epoch=5)
    produce(cluster, 3, "3", acks=1)
    cluster.heal()
    cluster.pass_time(3_000)
    assert log_of(cluster, 1) == log_of(cluster, 2) == log_of(cluster, 3) == [(0, 0, "a"), (5, 1, "3")]
    assert cluster.partition(3).high_watermark == 2


def test_a_leader_that_wrote_nothing_leaves_no_epoch_behind_faults_2_2() -> None:
    cluster = started((1, 2))
    produce(cluster, 1, "a")
    cluster.run()
    cluster.cut(1, 2)
    cluster.state("t", leader=2, leader_epoch=1)
    cluster.state("t", leader=1, leader_epoch=2)
    cluster.heal()
    sent = produce(cluster, 1, "b")
    cluster.pass_time(1_500)
    assert code(sent) == ErrorCode.NONE
    assert cluster.partition(2).log.epochs.entries == cluster.partition(1).log.epochs.entries


def test_the_truncation_is_fenced_too_faults_1_rule_2() -> None:
    """A follower that knows a newer epoch gets nothing from a leader that does not, not even where to cut."""
    cluster = started()
    produce(cluster, 1, "a")
    cluster.run()
    cluster.make_deaf(1)
    cluster.state("t", leader=1, leader_epoch=1)
    produce(cluster, 1, "b", acks=1)
    cluster.pass_time(1_000)
    assert cluster.partition(2).log.log_end_offset == 1
    cluster.hear(1)
    cluster.pass_time(2_000)
    assert cluster.partition(2).log.log_end_offset == 2


def test_a_zombie_leader_acknowledges_nothing_faults_2_3_and_4_6() -> None:
    cluster = started()
    cluster.make_deaf(1)
    cluster.state("t", leader=2, leader_epoch=1, isr=(1, 2, 3))
    cluster.run()
    zombie = produce(cluster, 1, "zombie")
    cluster.pass_time(2_000)
    assert zombie.answer is None
    assert cluster.partition(1).high_watermark == 0
    cluster.hear(1)
    assert code(zombie) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert part(zombie).current_leader.leader_id == 2
    cluster.pass_time(2_000)
    assert log_of(cluster, 1) == log_of(cluster, 2) == []


def test_a_zombie_follower_is_fenced_faults_2_3() -> None:
    cluster = started()
    cluster.make_deaf(3)
    cluster.state("t", leader=1, leader_epoch=1, isr=(1, 2))
    cluster.pass_time(1_000)
    assert cluster.states("t")[0].isr == (1, 2), "it fetches in epoch 0, which counts for nothing"
    cluster.hear(3)
    cluster.pass_time(1_000)
    assert cluster.states("t")[0].isr == (1, 2, 3)


def test_leadership_lost_while_waiting_is_no_acknowledgement_even_if_it_returns() -> None:
    cluster = started()
    cluster.cut(1, 2)
    cluster.cut(1, 3)
    sent = produce(cluster, 1, "a")
    cluster.state("t", leader=1, leader_epoch=2)
    assert code(sent) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_an_answer_of_an_older_epoch_is_dropped_faults_1_rule_2() -> None:
    cluster = started((1, 2))
    produce(cluster, 1, "a", acks=1)
    (answer,) = cluster.messages
    cluster.messages.clear()
    cluster.state("t", leader=1, leader_epoch=1)
    answer()
    assert cluster.partition(2).log.log_end_offset == 0, "the answer was for epoch 0"
    cluster.pass_time(1_000)
    assert cluster.partition(2).log.log_end_offset == 1


# Incarnations


def test_a_leader_waits_after_a_restart_until_its_incarnation_is_recorded() -> None:
    cluster = started()
    produce(cluster, 1, "a")
    cluster.run()
    cluster.restart(1)
    assert code(produce(cluster, 1, "b")) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    cluster.state("t", leader=1, leader_epoch=1, isr_epochs=cluster.epochs((1, 2, 3)))
    sent = produce(cluster, 1, "b")
    cluster.pass_time(1_000)
    assert code(sent) == ErrorCode.NONE


def test_a_leader_that_is_no_longer_registered_stops_faults_2_9() -> None:
    cluster = started()
    sent = produce(cluster, 1, "a")
    path = znodes.BROKERS + "1"
    del cluster.keeper.nodes[path]
    cluster.tell([NodeChanged(path, None, 0)])
    assert code(sent) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    cluster.register(1)
    assert code(produce(cluster, 1, "a")) == ErrorCode.NOT_LEADER_OR_FOLLOWER, "as another incarnation"


def test_acks_1_waits_where_neither_keeper_nor_followers_confirm_the_leader_faults_2_9() -> None:
    cluster = started()
    cluster.make_deaf(1)
    cluster.pass_time(600)
    assert code(produce(cluster, 1, "a", acks=1)) == ErrorCode.NONE, "the followers fetch"
    cluster.cut(1, 3)
    cluster.pass_time(2_000)
    sent = produce(cluster, 1, "b", acks=1)
    cluster.pass_time(500)
    assert sent.answer is None
    cluster.hear(1)
    cluster.pass_time(1_500)
    assert code(sent) == ErrorCode.NONE, "the keeper confirms it"


def test_a_follower_with_an_emptied_disk_does_not_count_as_the_one_it_was_faults_2_6() -> None:
    cluster = started()
    cluster.state("t", isr=(1, 2))
    cluster.is_deciding = False
    cluster.pass_time(600)
    (proposal,) = cluster.proposals
    cluster.kill(3)
    disk = cluster.nodes[3].disk
    disk.remove_tree("/data")
    cluster.start(3, is_clean=False)
    cluster.run()
    (data,) = proposal.request.topics[0].partitions
    proposed = {one.broker_id: one.broker_epoch for one in data.new_isr_with_epochs}
    assert proposed[3] < cluster.epochs((3,))[0], "what the controller is asked to admit is gone"


def test_a_fetch_of_an_earlier_incarnation_counts_for_nothing_faults_2_5() -> None:
    cluster = started()
    before = cluster.epochs((3,))[0]
    cluster.restart(3)
    request = fetch_of((TOPIC_ID, 0, 0), current_leader_epoch=0)
    request.replica_state = ReplicaState(replica_id=3, replica_epoch=before)
    (answer,) = cluster.client(1).as_broker(3).send(request).responses[0].partitions
    assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH
    request.replica_state = ReplicaState(replica_id=3)
    (answer,) = cluster.client(1).as_broker(3).send(request).responses[0].partitions
    assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH, "nor one that does not say which"


def test_a_fetch_of_an_incarnation_that_is_not_registered_yet_is_refused() -> None:
    cluster = started()
    produce(cluster, 1, "a", acks=1)
    request = fetch_of((TOPIC_ID, 0, 0), current_leader_epoch=0)
    request.replica_state = ReplicaState(replica_id=3, replica_epoch=cluster.epochs((3,))[0] + 1)
    (answer,) = cluster.client(1).as_broker(3).send(request).responses[0].partitions
    assert (answer.error_code, answer.records) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, b"")


def test_who_is_no_replica_cannot_fetch_as_one_cve_2018_1288() -> None:
    cluster = Cluster()
    cluster.topic("t", (1, 2))
    request = fetch_of((TOPIC_ID, 0, 0), current_leader_epoch=0)
    request.replica_state = ReplicaState(replica_id=3, replica_epoch=cluster.epochs((3,))[0])
    (answer,) = cluster.client(1).as_broker(3).send(request).responses[0].partitions
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_an_unclean_restart_that_lost_its_tail_does_not_take_it_from_others_faults_2_7() -> None:
    """The last replica standing lost what was not synced; who left the ISR before leads again."""
    cluster = started((1, 2), min_insync_replicas="2")
    sent = produce(cluster, 1, "a", "b")
    cluster.run()
    assert code(sent) == ErrorCode.NONE
    cluster.kill(2)
    cluster.state("t", isr=(1,), elr=(2,))
    produce(cluster, 1, "c", acks=1)
    assert cluster.partition(1).high_watermark == 2, "nothing is committed below min.insync.replicas"
    cluster.kill(1, power_loss)
    cluster.start(2, is_clean=False)
    cluster.start(1, is_clean=False)
    cluster.state("t", leader=2, leader_epoch=1, isr=(2,), isr_epochs=cluster.epochs((2,)))
    cluster.pass_time(2_000)
    assert log_of(cluster, 1) == log_of(cluster, 2) == [(0, 0, "a"), (0, 1, "b")]


# What is kept over restarts


def test_the_high_watermark_is_remembered_and_does_not_start_at_the_end_faults_2_11() -> None:
    cluster = started()
    produce(cluster, 1, "a")
    cluster.pass_time(6_000)
    cluster.cut(1, 2)
    cluster.cut(1, 3)
    produce(cluster, 1, "b", acks=1)
    cluster.crash(1)
    assert cluster.partition(1).high_watermark == 1
    cluster.state("t", leader=1, leader_epoch=1, isr_epochs=cluster.epochs((1, 2, 3)))
    assert (cluster.partition(1).high_watermark, cluster.partition(1).log.log_end_offset) == (1, 2)


def test_a_retry_after_a_change_of_leaders_is_recognized_faults_2_16() -> None:
    cluster = started()
    request = to("t", idempotent(0, "a", "b"))
    sent = cluster.client(1).ask(request, 12)
    cluster.run()
    assert code(sent) == ErrorCode.NONE
    cluster.kill(1)
    cluster.state("t", leader=2, leader_epoch=1, isr=(2, 3))
    again = cluster.client(2).ask(to("t", idempotent(0, "a", "b"), timeout_ms=5_000), 12)
    cluster.pass_time(1_200)
    assert (code(again), part(again).base_offset) == (ErrorCode.NONE, 0)
    assert cluster.partition(2).log.log_end_offset == 2


def test_a_topic_made_again_is_another_topic_faults_2_19() -> None:
    cluster = started((1, 2))
    produce(cluster, 1, "a")
    cluster.run()
    cluster.make_deaf(2)
    cluster.write(Delete(znodes.topic_path("t")), Delete(znodes.topic_config_path("t")))
    cluster.topic("t", (1, 2), topic_id=b"j" * 16)
    produce(cluster, 1, "b", acks=1)
    cluster.pass_time(1_000)
    assert log_of(cluster, 2) == [(0, 0, "a")], "the old one's follower gets nothing of the new one"
    assert cluster.partition(1).high_watermark == 0
    cluster.hear(2)
    cluster.pass_time(1_500)
    assert log_of(cluster, 2) == [(0, 0, "b")]


# Reassignment


def assign(cluster: Cluster, *replicas: int) -> None:
    node = znodes.topic_node(TOPIC_ID, {0: replicas})
    cluster.write(Put(znodes.topic_path("t"), node))


def test_a_replica_that_is_added_catches_up_and_enters() -> None:
    cluster = Cluster()
    cluster.topic("t", (1,))
    produce(cluster, 1, "a")
    assign(cluster, 1, 2, 3)
    cluster.pass_time(1_000)
    assert cluster.states("t")[0].isr == (1, 2, 3)
    assert log_of(cluster, 3) == [(0, 0, "a")]
    sent = produce(cluster, 1, "b")
    cluster.run()
    assert code(sent) == ErrorCode.NONE


def test_a_replica_that_is_taken_away_leaves_no_log() -> None:
    cluster = started()
    produce(cluster, 1, "a")
    cluster.run()
    cluster.state("t", leader=2, leader_epoch=1, isr=(2, 3))
    assign(cluster, 2, 3)
    cluster.pass_time(1_000)
    broker = cluster.nodes[1].broker
    assert TopicPartition("t", 0) not in broker.partitions
    assert broker.store.logs == {}
    sent = produce(cluster, 2, "b")
    cluster.run()
    assert code(sent) == ErrorCode.NONE


def test_a_replica_that_was_moved_while_its_broker_was_away_is_removed_at_the_start() -> None:
    cluster = started()
    cluster.kill(3)
    cluster.state("t", isr=(1, 2))
    assign(cluster, 1, 2)
    cluster.start(3, is_clean=False)
    assert cluster.nodes[3].broker.store.logs == {}
    assert cluster.nodes[3].reports[-1] == "t-0: its replicas are elsewhere; its folder will be removed"


def test_brokers_that_come_while_the_pump_runs_are_found() -> None:
    cluster = started((1, 2))
    cluster.kill(1)
    cluster.pass_time(1_000)
    cluster.start(1)
    cluster.state("t", leader=1, leader_epoch=1, isr_epochs=cluster.epochs((1, 2)))
    sent = produce(cluster, 1, "a")
    cluster.pass_time(1_500)
    assert code(sent) == ErrorCode.NONE


@pytest.mark.parametrize("count", [1, 50])
def test_many_partitions_are_copied_in_turn(count: int) -> None:
    cluster = Cluster((1, 2))
    cluster.topic("t", *[(1, 2)] * count)
    cluster.run()
    sent = cluster.client(1).ask(to("t", *[batch(str(index)) for index in range(count)]), 12)
    cluster.pass_time(600)
    assert {one.error_code for one in sent.answer.responses[0].partition_responses} == {0}
    assert all(cluster.partition(2, index=index).log.log_end_offset == 1 for index in range(count))


def test_nodes_of_another_topic_do_not_disturb() -> None:
    cluster = started((1, 2))
    cluster.write(Create(znodes.topic_config_path("u"), znodes.config_node({})))
    sent = produce(cluster, 1, "a")
    cluster.run()
    assert code(sent) == ErrorCode.NONE


def test_what_a_leader_leads_since_a_moment_ago_is_fetched_soon() -> None:
    cluster = started((1, 2))
    cluster.pass_time(5_000)
    cluster.topic("u", (1, 2), topic_id=b"u" * 16)
    sent = cluster.client(1).ask(to("u", batch("a")), 12)
    cluster.pass_time(100)
    assert code(sent) == ErrorCode.NONE
    cluster.pass_time(5_000)
    assert max(request.max_wait_ms for _, _, request in fetches(cluster)[-3:]) == 500


# Throttles


def throttled(**properties: str) -> Cluster:
    """Broker 2 has far to go, and the topic's traffic to it is throttled."""
    spelled = {key.replace("_", "."): value for key, value in properties.items()}
    cluster = Cluster((1, 2), {"replica.fetch.max.bytes": "1000", **spelled})
    cluster.topic(
        "t", (1, 2), leader_replication_throttled_replicas="*", follower_replication_throttled_replicas="0:2"
    )
    cluster.run()
    cluster.kill(2)
    cluster.state("t", isr=(1,))
    for _ in range(40):
        produce(cluster, 1, "x" * 900)
    cluster.start(2, is_clean=False)
    return cluster


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_throttled_replica_catches_up_no_faster_than_its_rate(side: str) -> None:
    cluster = throttled(**{f"{side}_replication_throttled_rate": "1000"})
    cluster.pass_time(5_000)
    assert 5 <= cluster.partition(2).log.log_end_offset <= 13
    cluster.pass_time(60_000)
    assert cluster.partition(2).log.log_end_offset == 40
    assert cluster.states("t")[0].isr == (1, 2)


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_replica_in_sync_is_not_throttled(side: str) -> None:
    cluster = throttled(**{f"{side}_replication_throttled_rate": "1000"})
    cluster.pass_time(65_000)
    sent = [produce(cluster, 1, "x" * 900) for _ in range(30)]
    cluster.pass_time(200)
    assert {code(one) for one in sent} == {ErrorCode.NONE}
