"""Brokers that suspect each other, and the controller's seat between them; proposals through the keeper."""

import json

from tests.broker.controllers import Controllers

from ottla.broker.effects import Sign
from ottla.broker.liveness import DOUBT_MS, REFUSED_APART_MS, UNREACHABLE_MS
from ottla.controller import znodes
from ottla.controller.keeper import Create, Delete, Put
from ottla.controller.znodes import Proposed, Report


def sign(cluster: Controllers, at: int, of: int, *signs: Sign) -> None:
    """One broker probes another, again and again."""
    for one in signs:
        broker = cluster.brokers[at]
        cluster.now_ms += REFUSED_APART_MS
        broker.on_probed(of, broker.image.brokers[of].epoch, one, cluster.now_ms)
        cluster.carry_out()


def refuse(cluster: Controllers, at: int, of: int) -> None:
    sign(cluster, at, of, Sign.REFUSED, Sign.REFUSED)


def say(cluster: Controllers, by: int, *unreachable: int) -> None:
    brokers = cluster.brokers[by].image.brokers
    node = znodes.report_node(Report(brokers[by].epoch, {id: brokers[id].epoch for id in unreachable}))
    path = znodes.REPORTS + str(by)
    is_there = path in cluster.keeper.nodes
    cluster.write(Put(path, node) if is_there else Create(path, node, ephemeral=True))


def test_the_controller_elects_in_place_of_a_suspect_at_once() -> None:
    cluster = Controllers(3)
    cluster.create("t", (2, 1, 3))
    refuse(cluster, at=1, of=2)
    assert cluster.state("t")[:3] == (1, 1, (1, 3))


def test_others_who_suspect_a_leader_leave_it_to_the_controller() -> None:
    cluster = Controllers(3)
    cluster.create("t", (2, 1, 3))
    refuse(cluster, at=3, of=2)
    assert cluster.state("t").leader == 2


def test_a_suspected_controller_loses_its_seat_and_what_it_leads() -> None:
    cluster = Controllers(3)
    cluster.create("t", (1, 2, 3))
    cluster.blind.add(1)  # it is dead
    epoch = cluster.brokers[2].image.controller_epoch
    refuse(cluster, at=2, of=1)
    assert cluster.controller == 2
    assert cluster.brokers[3].image.controller_epoch == epoch + 1
    assert cluster.state("t")[:3] == (2, 1, (2, 3))


def test_what_a_controller_writes_after_its_seat_was_taken_is_refused() -> None:
    cluster = Controllers(3)
    cluster.create("t", (1, 2, 3))
    cluster.blind.add(1)
    refuse(cluster, at=2, of=1)
    before = cluster.state("t")
    refuse(cluster, at=1, of=3)  # it goes on, and believes that it is the controller
    assert cluster.brokers[1].seat.is_active
    assert cluster.state("t") == before


def test_two_who_refuse_each_other_do_not_take_the_seat_from_each_other_again() -> None:
    cluster = Controllers(2)
    refuse(cluster, at=1, of=2)
    refuse(cluster, at=2, of=1)
    assert cluster.controller == 2
    for _ in range(20):
        refuse(cluster, at=1, of=2)
        refuse(cluster, at=2, of=1)
        cluster.tick(1_000)
    assert cluster.controller == 2
    sign(cluster, 1, 2, Sign.ANSWERED)
    cluster.tick(60_000)
    refuse(cluster, at=1, of=2)
    assert cluster.controller == 1, "it had answered, and refuses again"


def test_the_seat_is_not_taken_on_two_nodes_of_different_times() -> None:
    cluster = Controllers(3)
    cluster.blind |= {1, 3}
    refuse(cluster, at=2, of=1)
    epoch, version = (
        cluster.brokers[2].image.controller_epoch,
        cluster.brokers[2].image.controller_epoch_version,
    )
    third = cluster.brokers[3]
    third.image.controller_epoch, third.image.controller_epoch_version = epoch, version
    refuse(cluster, at=3, of=1)  # it has not seen yet who has the seat now
    assert cluster.controller == 2


def test_a_broker_that_stops_takes_no_seat() -> None:
    cluster = Controllers(3)
    cluster.brokers[2].begin_stop(cluster.now_ms)
    cluster.carry_out()
    cluster.blind.add(1)
    refuse(cluster, at=2, of=1)
    assert cluster.controller is None
    refuse(cluster, at=3, of=1)
    assert cluster.controller == 3


def test_a_suspicion_that_others_do_not_share_is_dropped_in_the_end() -> None:
    cluster = Controllers(3)
    cluster.create("t", (2, 1, 3))
    cluster.tick(DOUBT_MS)
    sign(cluster, 1, 3, Sign.ANSWERED)
    refuse(cluster, at=1, of=2)
    cluster.tick(DOUBT_MS)
    assert cluster.brokers[1].liveness.suspected == set()
    refuse(cluster, at=1, of=2)
    assert cluster.brokers[1].liveness.suspected == set(), "it has not answered since"


def test_a_suspicion_that_others_share_stays() -> None:
    cluster = Controllers(3)
    cluster.tick(DOUBT_MS)
    sign(cluster, 1, 3, Sign.ANSWERED)
    refuse(cluster, at=1, of=2)
    say(cluster, 3, 2)
    cluster.tick(DOUBT_MS)
    assert cluster.brokers[1].liveness.suspected == {2}


def test_a_broker_tells_whom_it_cannot_reach_and_when_it_can_again() -> None:
    cluster = Controllers(2)
    path = znodes.REPORTS + "2"
    cluster.tick()
    assert path not in cluster.keeper.nodes, "nothing to say"
    cluster.tick(UNREACHABLE_MS)
    sign(cluster, 2, 1, Sign.SILENT, Sign.SILENT)
    cluster.tick()
    brokers = cluster.brokers[1].image.brokers
    assert cluster.brokers[1].image.report(2) == Report(brokers[2].epoch, {1: brokers[1].epoch})
    writes = cluster.keeper.writes
    cluster.tick()
    assert cluster.keeper.writes == writes, "and nothing new"
    sign(cluster, 2, 1, Sign.ANSWERED)
    cluster.tick()
    assert cluster.brokers[1].image.report(2) == Report(brokers[2].epoch)


def deaf() -> Controllers:
    cluster = Controllers(4)
    cluster.tick(UNREACHABLE_MS)
    for other in (2, 3, 4):
        sign(cluster, 1, other, Sign.SILENT, Sign.SILENT)
        sign(cluster, other, 1, Sign.SILENT, Sign.SILENT)
    return cluster


def test_a_controller_that_is_cut_off_from_all_others_leaves_the_seat_to_them() -> None:
    cluster = deaf()
    for _ in range(2):
        cluster.tick()
    seat = cluster.controller
    assert seat in {2, 3, 4}
    cluster.die(seat)
    assert cluster.controller not in {1, None}, "and does not take it while that is so"
    for other in {2, 3, 4} - {seat}:
        sign(cluster, other, 1, Sign.ANSWERED)
    cluster.tick()
    for other in {2, 3, 4} - {seat}:
        cluster.die(other)
    assert cluster.controller == 1


def test_a_controller_whose_seat_is_taken_meanwhile_leaves_nobody_elses() -> None:
    cluster = deaf()
    for id in cluster.brokers:
        cluster.brokers[id].report.pump(cluster.now_ms)
    cluster.carry_out()
    cluster.blind.add(1)
    refuse(cluster, at=2, of=1)
    assert cluster.controller == 2
    cluster.tick()
    cluster.tick()
    assert not cluster.brokers[1].seat._is_leaving, "it has tried"
    assert cluster.controller == 2
    assert json.loads(cluster.keeper.nodes[znodes.CONTROLLER][0])["brokerid"] == 2


def test_a_proposal_in_a_report_is_taken_as_if_it_had_been_sent() -> None:
    cluster = Controllers(3)
    cluster.create("t", (2, 1, 3))
    brokers, topic = cluster.brokers[1].image.brokers, cluster.brokers[1].image.topics["t"]
    isr = ((2, brokers[2].epoch), (3, brokers[3].epoch))
    report = Report(brokers[2].epoch, {}, (Proposed(topic.id, 0, 0, 0, isr),))
    cluster.write(Create(znodes.REPORTS + "2", znodes.report_node(report), ephemeral=True))
    state = cluster.state("t")
    assert (state.leader, state.isr, state.partition_epoch) == (2, (2, 3), 1)
    cluster.tick(5_000)
    assert cluster.state("t") == state, "once"


def test_a_new_controller_takes_what_the_last_one_did_not_hear_of() -> None:
    cluster = Controllers(3)
    cluster.create("t", (2, 1, 3))
    cluster.blind.add(1)
    brokers, topic = cluster.brokers[2].image.brokers, cluster.brokers[2].image.topics["t"]
    isr = ((2, brokers[2].epoch), (3, brokers[3].epoch))
    report = Report(brokers[2].epoch, {}, (Proposed(topic.id, 0, 0, 0, isr),))
    cluster.write(Create(znodes.REPORTS + "2", znodes.report_node(report), ephemeral=True))
    assert cluster.state("t").isr == (2, 1, 3)
    cluster.lose_session(1)
    assert cluster.state("t").isr == (2, 3)


def test_proposals_of_another_time_are_nothing() -> None:
    cluster = Controllers(3)
    cluster.create("t", (2, 1, 3))
    before = cluster.state("t")
    brokers, topic = cluster.brokers[1].image.brokers, cluster.brokers[1].image.topics["t"]
    isr = ((2, brokers[2].epoch), (3, brokers[3].epoch))
    stale = [
        Report(1, {}, (Proposed(topic.id, 0, 0, 0, isr),)),
        Report(brokers[2].epoch, {}, (Proposed(b"x" * 16, 0, 0, 0, isr),)),
        Report(brokers[2].epoch, {}, (Proposed(topic.id, 7, 0, 0, isr),)),
        Report(brokers[2].epoch, {}, (Proposed(topic.id, 0, 0, 9, isr),)),
        Report(brokers[2].epoch, {}, (Proposed(topic.id, 0, 3, 0, isr),)),
    ]
    path = znodes.REPORTS + "2"
    for report in stale:
        cluster.write(Create(path, znodes.report_node(report), ephemeral=True))
        cluster.tick()
        cluster.write(Delete(path))
    assert cluster.state("t") == before


def test_a_member_that_is_not_eligible_is_answered_with_a_state_that_moves_on() -> None:
    cluster = Controllers(3)
    cluster.create("t", (2, 1, 3))
    brokers, topic = cluster.brokers[1].image.brokers, cluster.brokers[1].image.topics["t"]
    isr = ((1, brokers[1].epoch), (2, brokers[2].epoch), (3, 1))
    report = Report(brokers[2].epoch, {}, (Proposed(topic.id, 0, 0, 0, isr),))
    before = cluster.state("t")
    cluster.write(Create(znodes.REPORTS + "2", znodes.report_node(report), ephemeral=True))
    assert cluster.state("t") == before._replace(partition_epoch=1)


def test_nobody_waits_for_a_suspect_when_it_stops() -> None:
    cluster = Controllers(2)
    cluster.create("t", (2, 1))
    stopping = cluster.brokers[2]
    cluster.blind.add(1)
    stopping.begin_stop(cluster.now_ms)
    cluster.carry_out()
    assert not stopping.departure.is_drained
    refuse(cluster, at=2, of=1)
    assert stopping.departure.is_drained
