"""The controller among several brokers: the seat, its writes, and what waits for them."""

import logging

import pytest
from tests.broker.controllers import Controllers

from ottla.base.errors import ErrorCode
from ottla.base.ids import ZERO_UUID
from ottla.broker.controller_writes import PLANNED_FACTOR
from ottla.broker.effects import Reply, WriteNodes
from ottla.controller import znodes
from ottla.controller.keeper import Create, Delete, NodeChanged, Put
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    PartitionData,
    PartitionDataResponse,
    TopicData,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState


def proposal(
    cluster: Controllers, broker: int, *isr: int, topic: str = "t", **other: int
) -> AlterPartitionRequest:
    """What broker, the leader, would ask of the controller."""
    image, state = cluster.brokers[broker].image, cluster.state(topic)
    fields = {"leader_epoch": state.leader_epoch, "partition_epoch": state.partition_epoch} | other
    members = [
        BrokerState(broker_id=one, broker_epoch=image.brokers[one].epoch if one in image.brokers else 1)
        for one in isr
    ]
    one = PartitionData(partition_index=0, new_isr=list(isr), new_isr_with_epochs=members, **fields)
    return AlterPartitionRequest(
        broker_id=broker,
        broker_epoch=image.brokers[broker].epoch,
        topics=[TopicData(topic_id=image.topics[topic].id, partitions=[one])],
    )


def only(answer: object) -> PartitionDataResponse:
    return answer.topics[0].partitions[0]  # type: ignore[attr-defined, no-any-return]


# The seat


def test_the_first_broker_takes_the_seat_and_the_next_one_when_it_is_free() -> None:
    cluster = Controllers(3)
    assert cluster.controller == 1
    epoch = cluster.brokers[2].image.controller_epoch
    cluster.die(1)
    assert cluster.controller == 2
    assert cluster.brokers[2].image.controller_epoch == epoch + 1


def test_fault_4_what_a_controller_writes_after_its_seat_is_gone_is_refused() -> None:
    cluster = Controllers(3)
    cluster.create("t", (2, 3))
    cluster.lose_session(1)
    zombie = cluster.brokers[1]
    assert zombie.seat.is_active
    assert cluster.controller == 2
    before = cluster.state("t")
    zombie.image.brokers.pop(2)
    zombie.controller_writes.on_tick(cluster.now_ms + 10_000)
    assert any(isinstance(effect, WriteNodes) for effect in zombie.outbox.effects)
    cluster.carry_out()
    assert cluster.state("t") == before
    assert cluster.brokers[1].seat.is_active, "it does not know yet"


def test_a_broker_that_lost_its_seat_answers_that_it_is_not_the_controller() -> None:
    cluster = Controllers(2)
    cluster.create("t", (1, 2))
    assert cluster.ask(2, proposal(cluster, 1, 1)).answer.error_code == ErrorCode.NOT_CONTROLLER


def test_a_lost_answer_to_the_candidacy_is_looked_up() -> None:
    cluster = Controllers(2)
    cluster.keeper.losing = [True]
    cluster.die(1)
    assert cluster.controller == 2
    cluster = Controllers(2)
    cluster.keeper.losing = [False]
    cluster.die(1)
    assert cluster.controller is None
    cluster.tick()
    assert cluster.controller == 2


def test_a_new_controller_finishes_what_the_last_one_did_not() -> None:
    cluster = Controllers(3)
    cluster.create("t", (1, 2, 3))
    cluster.keeper.losing = [False] * 2  # neither the seat nor an election comes through
    cluster.die(1)
    cluster.tick()
    cluster.tick()
    assert cluster.state("t")[:3] == (2, 1, (2, 3))


def test_a_topic_made_again_does_not_get_what_was_decided_for_the_old_one() -> None:
    """Its nodes have the names and versions of the old ones."""
    cluster = Controllers(3)
    cluster.create("t", (2, 3))
    cluster.blind.add(1)
    topic = DeleteTopicState(name="t", topic_id=ZERO_UUID)
    cluster.ask(2, DeleteTopicsRequest(topics=[topic], timeout_ms=1000))
    cluster.create("t", (1, 2))
    before = cluster.state("t")
    cluster.brokers[1].image.brokers.pop(2)
    cluster.tick(10_000)
    assert cluster.state("t") == before


# Elections


def test_leaders_move_when_a_broker_dies_and_all_topics_go_in_few_writes() -> None:
    cluster = Controllers(3)
    for number in range(20):
        cluster.create(f"t{number}", (1, 2), (2, 3), (3, 1))
    writes = cluster.keeper.writes
    cluster.die(3)
    assert all(cluster.state(f"t{n}", 2).leader == 1 for n in range(20))
    assert all(cluster.state(f"t{n}", 1).isr == (2,) for n in range(20))
    assert cluster.keeper.writes - writes == 1


def test_one_topic_that_cannot_be_written_does_not_hold_up_the_others() -> None:
    cluster = Controllers(3)
    for name in ("a", "b", "c"):
        cluster.create(name, (2, 3))
    cluster.blind.add(1)
    cluster.write(Delete(znodes.topic_path("b")))
    changed = cluster.keeper.end(2)
    del cluster.brokers[2]
    cluster.blind.clear()
    cluster.tell(changed)
    cluster.tick()
    cluster.tick()
    assert cluster.state("a").leader == cluster.state("c").leader == 3


def test_the_answer_to_an_election_may_be_lost() -> None:
    for is_written in (True, False):
        cluster = Controllers(3)
        cluster.create("t", (3, 2))
        cluster.keeper.losing = [is_written]
        cluster.die(3)
        cluster.tick()
        assert cluster.state("t")[:4] == (2, 1, (2,), 1)


def test_fault_8_an_unclean_election_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Controllers(3)
    cluster.create("t", (3, 2), unclean_leader_election_enable=True)
    cluster.ask(1, proposal(cluster, 3, 3))
    with caplog.at_level(logging.WARNING):
        cluster.die(3)
    assert cluster.state("t").leader == 2
    assert "t-0: unclean election of broker 2: what only 3 held is lost" in caplog.text


def test_leaders_go_back_to_the_first_replica_after_a_while() -> None:
    cluster = Controllers(3, leader_imbalance_check_interval_seconds="10")
    cluster.create("t", (2, 3))
    cluster.die(2)
    cluster.start(2)
    cluster.ask(1, proposal(cluster, 3, 3, 2))
    assert cluster.state("t")[:3] == (3, 1, (3, 2))
    cluster.tick(10_000)
    assert cluster.state("t")[:3] == (2, 2, (3, 2))


def test_leaders_stay_where_they_are_if_the_operator_says_so() -> None:
    cluster = Controllers(
        3, leader_imbalance_check_interval_seconds="10", auto_leader_rebalance_enable="false"
    )
    cluster.create("t", (2, 3))
    cluster.die(2)
    cluster.start(2)
    cluster.ask(1, proposal(cluster, 3, 3, 2))
    cluster.tick(10_000)
    assert cluster.state("t").leader == 3


# AlterPartition


def test_an_isr_is_answered_when_it_is_written() -> None:
    cluster = Controllers(3)
    cluster.create("t", (2, 3))
    for version in (2, 3):
        answer = only(cluster.ask(1, proposal(cluster, 2, 2), version).answer)
        assert (answer.error_code, answer.leader_id, answer.leader_epoch) == (0, 2, 0)
        assert (answer.isr, answer.partition_epoch) == ([2], cluster.state("t").partition_epoch)
        cluster.ask(1, proposal(cluster, 2, 2, 3), version)
        assert cluster.state("t").isr == (2, 3)


def test_an_isr_that_is_so_already_is_not_written_again() -> None:
    cluster = Controllers(3)
    cluster.create("t", (2, 3))
    writes = cluster.keeper.writes
    answer = only(cluster.ask(1, proposal(cluster, 2, 2, 3)).answer)
    assert (answer.error_code, answer.partition_epoch, cluster.keeper.writes) == (0, 0, writes)


@pytest.mark.parametrize(
    ("leader", "isr", "changes", "code"),
    [
        (2, (2,), {"leader_epoch": 7}, ErrorCode.NOT_CONTROLLER),
        (2, (2,), {"partition_epoch": 7}, ErrorCode.NOT_CONTROLLER),
        (2, (2,), {"leader_epoch": -1}, ErrorCode.FENCED_LEADER_EPOCH),
        (2, (2,), {"partition_epoch": -1}, ErrorCode.INVALID_UPDATE_VERSION),
        (3, (3,), {}, ErrorCode.INVALID_REQUEST),
        (2, (3,), {}, ErrorCode.INVALID_REQUEST),
        (2, (2, 1), {}, ErrorCode.INELIGIBLE_REPLICA),  # no replica any more: refused for good
        (2, (2, 3, 3), {}, ErrorCode.INVALID_REQUEST),
        (2, (2,), {"partition_index": 5}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_proposal_on_wrong_knowledge_is_refused(
    leader: int, isr: tuple[int, ...], changes: dict[str, int], code: ErrorCode
) -> None:
    cluster = Controllers(3)
    cluster.create("t", (2, 3))
    request = proposal(cluster, leader, *isr)
    for name, value in changes.items():
        setattr(request.topics[0].partitions[0], name, value)
    assert only(cluster.ask(1, request).answer).error_code == code


def test_an_unknown_topic_and_a_recovering_leader_are_refused() -> None:
    cluster = Controllers(2)
    cluster.create("t", (1, 2))
    request = proposal(cluster, 1, 1)
    request.topics[0].partitions[0].leader_recovery_state = 1
    assert only(cluster.ask(1, request).answer).error_code == ErrorCode.INVALID_REQUEST
    request.topics[0].topic_id = b"?" * 16
    assert only(cluster.ask(1, request).answer).error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_fault_5_a_request_of_an_earlier_incarnation_is_refused() -> None:
    cluster = Controllers(3)
    cluster.create("t", (2, 3))
    request = proposal(cluster, 2, 2)
    cluster.die(2)
    cluster.start(2)
    assert cluster.ask(1, request).answer.error_code == ErrorCode.STALE_BROKER_EPOCH


def test_fault_6_a_member_that_restarted_since_it_was_in_sync_is_ineligible() -> None:
    cluster = Controllers(3)
    cluster.create("t", (2, 3))
    cluster.die(3)
    cluster.start(3)
    request = proposal(cluster, 2, 2, 3)
    cluster.die(3)
    assert only(cluster.ask(1, request).answer).error_code == ErrorCode.INELIGIBLE_REPLICA
    cluster.start(3, is_clean=False)
    assert only(cluster.ask(1, request).answer).error_code == ErrorCode.INELIGIBLE_REPLICA
    assert cluster.state("t").isr == (2,)


def test_a_refusal_that_a_leader_would_build_on_is_confirmed_by_the_keeper_first() -> None:
    """An earlier controller wrote the ISR, and the new one has not seen it yet."""
    cluster = Controllers(3)
    cluster.create("t", (2, 3))
    cluster.ask(1, proposal(cluster, 2, 2))
    request = proposal(cluster, 2, 2, 3)
    before = cluster.state("t")
    cluster.blind.add(1)
    written = before._replace(
        isr=(2, 3), partition_epoch=before.partition_epoch + 1, isr_epochs=(*before.isr_epochs, 9)
    )
    path = znodes.state_path("t")
    cluster.write(Put(path, znodes.state_node(1, {0: written})))
    cluster.brokers[1].image.brokers.pop(3)
    pending = cluster.ask(1, request)
    assert pending.answer is None, "the keeper did not confirm"
    cluster.blind.clear()
    cluster.tell(cluster.keeper.load())
    cluster.tick()
    assert only(pending.answer).error_code == ErrorCode.INVALID_UPDATE_VERSION


def test_an_isr_whose_answer_from_the_keeper_is_lost_is_answered_by_what_is_there() -> None:
    for is_written in (True, False):
        cluster = Controllers(3)
        cluster.create("t", (2, 3))
        cluster.keeper.losing = [is_written]
        pending = cluster.ask(1, proposal(cluster, 2, 2))
        cluster.tick()
        assert only(pending.answer).error_code == ErrorCode.NONE
        assert cluster.state("t")[2:4] == ((2,), 1)


def test_proposals_for_one_topic_wait_for_each_other() -> None:
    cluster = Controllers(3)
    cluster.create("t", (2, 3), (3, 2))
    first, second = proposal(cluster, 2, 2), proposal(cluster, 3, 3)
    second.topics[0].partitions[0].partition_index = 1
    held = cluster.carry_out
    cluster.carry_out = lambda: None  # type: ignore[method-assign]
    one, other = cluster.ask(1, first), cluster.ask(1, second)
    assert sum(isinstance(effect, WriteNodes) for effect in cluster.brokers[1].outbox.effects) == 1
    cluster.carry_out = held  # type: ignore[method-assign]
    cluster.carry_out()
    assert [only(pending.answer).error_code for pending in (one, other)] == [0, 0]
    assert (cluster.state("t", 0).isr, cluster.state("t", 1).isr) == ((2,), (3,))


def test_a_topic_deleted_while_a_proposal_waits_is_unknown() -> None:
    cluster = Controllers(3)
    cluster.create("t", (2, 3))
    cluster.keeper.losing = [False]
    pending = cluster.ask(1, proposal(cluster, 2, 2))
    cluster.write(Delete(znodes.topic_path("t")))
    assert only(pending.answer).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_keeper_that_does_not_answer_is_not_waited_for_for_ever() -> None:
    cluster = Controllers(3)
    cluster.create("t", (2, 3))
    cluster.keeper.losing = [False] * 1000
    pending = cluster.ask(1, proposal(cluster, 2, 2))
    cluster.tick(30_000)
    assert only(pending.answer).error_code == ErrorCode.REQUEST_TIMED_OUT


# The controlled stop


def test_a_broker_about_to_stop_is_drained_when_others_lead() -> None:
    cluster = Controllers(3)
    cluster.create("t", (2, 3), (3, 2))
    stopping = cluster.brokers[2]
    stopping.begin_stop(cluster.now_ms)
    assert not stopping.departure.is_drained
    cluster.carry_out()
    assert stopping.departure.is_drained
    assert cluster.state("t", 0)[:3] == (3, 1, (3,))
    assert cluster.state("t", 1)[:3] == (3, 0, (3,))


def test_the_controller_drains_itself_and_the_seat_goes_with_it() -> None:
    cluster = Controllers(3)
    cluster.create("t", (1, 2))
    cluster.brokers[1].begin_stop(cluster.now_ms)
    cluster.carry_out()
    assert cluster.brokers[1].departure.is_drained
    assert cluster.state("t").leader == 2
    cluster.die(1)
    assert cluster.controller == 2


def test_a_broker_about_to_stop_does_not_take_the_seat() -> None:
    cluster = Controllers(3)
    cluster.brokers[2].begin_stop(cluster.now_ms)
    cluster.carry_out()
    cluster.die(1)
    assert cluster.controller == 3


def test_a_broker_on_its_own_has_nobody_to_tell() -> None:
    cluster = Controllers(1)
    cluster.create("t", (1,))
    cluster.brokers[1].begin_stop(cluster.now_ms)
    assert cluster.brokers[1].departure.is_drained
    assert cluster.brokers[1].outbox.effects == []


def test_a_stop_that_the_keeper_did_not_hear_of_is_announced_again() -> None:
    cluster = Controllers(2)
    cluster.create("t", (2, 1))
    cluster.keeper.losing = [False]
    cluster.brokers[2].begin_stop(cluster.now_ms)
    cluster.carry_out()
    assert not cluster.brokers[2].departure.is_drained
    cluster.tick()
    assert cluster.brokers[2].departure.is_drained


def test_a_clean_stop_does_not_hide_an_unclean_start_from_a_controller_that_has_not_seen_it() -> None:
    cluster = Controllers(3)
    cluster.create("t", (2, 3))
    assert cluster.brokers[2].departure.may_stop_cleanly
    cluster.keeper.losing = [False] * 100
    cluster.die(2)
    cluster.die(3)
    cluster.keeper.losing = []
    cluster.blind.add(1)
    cluster.start(2, is_clean=False)
    assert cluster.state("t").isr == (2, 3)
    assert not cluster.brokers[2].departure.may_stop_cleanly
    cluster.blind.clear()
    cluster.tell(cluster.keeper.load())
    cluster.tick(10_000)
    assert cluster.state("t").isr_epochs[0] == -1, "now it is known"
    assert cluster.brokers[2].departure.may_stop_cleanly


def test_a_directory_that_failed_moves_leadership() -> None:
    cluster = Controllers(3)
    cluster.create("t", (2, 3))
    cluster.write(Create(znodes.OFFLINE + "2", znodes.offline_node([("t", 0)]), ephemeral=True))
    assert cluster.state("t")[:3] == (3, 1, (3,))


def test_many_large_topics_are_written_in_several_writes_and_none_is_forgotten() -> None:
    cluster = Controllers(3)
    for number in range(200):
        cluster.create(f"t{number}", (2, 3), (3, 2))
    cluster.die(2)
    assert all(cluster.state(f"t{n}", p).leader == 3 for n in range(200) for p in (0, 1))


def test_what_waits_is_refused_when_the_seat_is_lost() -> None:
    cluster = Controllers(3)
    cluster.create("t", (2, 3))
    cluster.keeper.losing = [False]
    pending = cluster.ask(1, proposal(cluster, 2, 2))
    assert pending.answer is None
    cluster.brokers[1].on_nodes([NodeChanged(znodes.CONTROLLER, None, 0)], cluster.now_ms)
    assert any(isinstance(effect, Reply) for effect in cluster.brokers[1].outbox.effects)
    cluster.carry_out()
    assert only(pending.answer).error_code == ErrorCode.NOT_CONTROLLER


def test_a_broker_about_to_stop_waits_for_a_slow_controller() -> None:
    cluster = Controllers(3)
    cluster.create("t", (2, 3))
    cluster.blind.add(1)
    stopping = cluster.brokers[2]
    stopping.begin_stop(cluster.now_ms)
    cluster.carry_out()
    assert cluster.brokers[2].image.brokers[2].is_stopping
    assert not stopping.departure.is_drained
    cluster.blind.clear()
    cluster.tell(cluster.keeper.load())
    assert stopping.departure.is_drained


# Much to look at


def test_a_controller_with_much_to_look_at_lets_others_have_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Controllers(3)
    for number in range(5):
        cluster.create(f"t{number}", (2, 3, 1))
    monkeypatch.setattr("ottla.broker.controller_writes.LOOKED_MAX", 2 * PLANNED_FACTOR)
    controller, now_ms = cluster.brokers[1], cluster.now_ms
    del cluster.brokers[2]
    controller.on_nodes(cluster.keeper.end(2), now_ms)

    def topics_written() -> list[int]:
        written = [effect for effect in controller.outbox.effects if isinstance(effect, WriteNodes)]
        return [sum(isinstance(operation, Put) for operation in effect.operations) for effect in written]

    assert topics_written() == [2]
    assert controller.controller_writes.next_ms() == now_ms, "there is more"
    controller.on_deadline(now_ms)
    controller.on_deadline(now_ms)
    assert topics_written() == [2, 2, 1]
    assert controller.controller_writes.next_ms() is None
    cluster.carry_out()
    assert {cluster.state(f"t{number}").leader for number in range(5)} == {3}


def test_leaders_come_back_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.broker.controller_writes.BALANCED_MAX", 2)
    cluster = Controllers(3, leader_imbalance_check_interval_seconds="1")
    for number in range(5):
        cluster.create(f"t{number}", (2, 3, 1))
    cluster.die(2)
    cluster.start(2)
    for number in range(5):
        cluster.ask(1, proposal(cluster, 3, 3, 1, 2, topic=f"t{number}"))
    writes = cluster.brokers[1].controller_writes
    cluster.tick(2_000)
    turns = 0
    while writes.next_ms() is not None:
        cluster.brokers[1].on_deadline(cluster.now_ms)
        cluster.carry_out()
        turns += 1
    assert turns == 2, "two, two and one"
    assert {cluster.state(f"t{number}").leader for number in range(5)} == {2}
