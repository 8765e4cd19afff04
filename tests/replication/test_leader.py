"""The leader's side: the high watermark and the ISR. Rules and rows are those of design note 015."""

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.replication.leader import (
    REFUSED_MS,
    Effects,
    HighWatermarkAdvanced,
    IsrSettled,
    Leader,
    ProposeIsr,
)

LAG_MS = 300


def leader(*isr: int, replicas: tuple[int, ...] = (0, 1, 2), **fields: int) -> Leader:
    """Broker 0 leads; broker n has epoch 10 + n."""
    given = {"high_watermark": 0, "isr_min": 1, "epoch_start": 0, "log_end": 0} | fields
    return Leader(
        broker_id=0, replicas=replicas, isr={one: 10 + one for one in isr or replicas}, partition_epoch=5,
        safe_end=given["log_end"], lag_ms_max=LAG_MS, now_ms=0, **given,
    )  # fmt: skip


def fetch(node: Leader, follower: int, offset: int, now_ms: int = 1, epoch: int | None = None) -> Effects:
    broker_epoch = 10 + follower if epoch is None else epoch
    return node.on_fetch(follower, offset, log_start=0, broker_epoch=broker_epoch, now_ms=now_ms)


def append(node: Leader, end: int, safe_end: int | None = None) -> Effects:
    return node.on_append(end, end if safe_end is None else safe_end)


def isr(*members: int) -> tuple[tuple[int, int], ...]:
    return tuple((one, 10 + one) for one in members)


def written(node: Leader, *members: int, now_ms: int = 1) -> Effects:
    return node.on_state(dict(isr(*members)), node.replicas, node.partition_epoch + 1, now_ms)


# The high watermark


def test_it_is_the_smallest_end_in_the_isr() -> None:
    node = leader()
    assert append(node, 10) == ()
    assert fetch(node, 1, 10) == ()
    assert fetch(node, 2, 7) == (HighWatermarkAdvanced(7),)
    assert fetch(node, 2, 10) == (HighWatermarkAdvanced(10),)


def test_it_rests_while_the_controller_counts_on_eligible_leaders_whatever_the_minimum_is_here() -> None:
    """faults 2.7: the minimum was lowered, the leader has heard of it and the controller has not."""
    node = leader(0, 1, replicas=(0, 1))
    node.isr_min = 1
    node.on_state(dict(isr(0)), (0, 1), node.partition_epoch + 1, 1, has_eligible=True)
    assert append(node, 10) == ()
    assert written(node, 0) == (HighWatermarkAdvanced(10),)


def test_it_never_goes_back_when_a_follower_does() -> None:
    node = leader(0, 1, replicas=(0, 1))
    append(node, 10)
    fetch(node, 1, 10)
    assert fetch(node, 1, 3) == ()
    assert node.high_watermark == 10


def test_the_leader_itself_counts_with_what_its_log_calls_safe() -> None:
    node = leader(0, 1, replicas=(0, 1))
    append(node, 10, safe_end=4)
    assert fetch(node, 1, 10) == (HighWatermarkAdvanced(4),)
    assert append(node, 10, safe_end=10) == (HighWatermarkAdvanced(10),)


def test_it_waits_for_fetches_of_this_epoch_faults_1_rule_3() -> None:
    node = leader(log_end=10, epoch_start=10, high_watermark=4)
    assert [one.log_end for one in node.followers.values()] == [-1, -1], "nothing is known at the start"
    fetch(node, 1, 10)
    assert node.high_watermark == 4
    assert fetch(node, 2, 10) == (HighWatermarkAdvanced(10),)


def test_who_is_proposed_counts_at_once_faults_1_maximal_isr() -> None:
    node = leader(0, 1)
    append(node, 10)
    fetch(node, 1, 10)
    assert node.high_watermark == 10
    assert fetch(node, 2, 10) == (ProposeIsr(isr(0, 1, 2), 5),)
    append(node, 20)
    assert fetch(node, 1, 20) == (), "broker 2 may be in the ISR by now"
    assert fetch(node, 2, 15) == (HighWatermarkAdvanced(15),)


def test_who_shall_go_counts_until_that_is_written_faults_1_maximal_isr() -> None:
    node = leader()
    append(node, 10)
    fetch(node, 1, 10, now_ms=LAG_MS + 1)
    assert node.on_tick(LAG_MS + 1) == (ProposeIsr(isr(0, 1), 5),)
    assert node.high_watermark == 0
    assert written(node, 0, 1) == (IsrSettled(), HighWatermarkAdvanced(10))


def test_it_rests_while_too_few_are_in_sync_faults_2_7() -> None:
    node = leader(0, isr_min=2)
    assert append(node, 10) == ()
    fetch(node, 1, 10)
    assert (node.high_watermark, node.pending) == (0, dict(isr(0, 1)))
    assert written(node, 0, 1) == (IsrSettled(), HighWatermarkAdvanced(10))


def test_min_insync_replicas_above_the_number_of_replicas_does_not_stop_it() -> None:
    node = leader(0, 1, replicas=(0, 1), isr_min=3)
    append(node, 10)
    assert fetch(node, 1, 10) == (HighWatermarkAdvanced(10),)


def test_another_incarnation_of_a_member_does_not_count_faults_2_6() -> None:
    node = leader(0, 1, replicas=(0, 1))
    append(node, 10)
    assert fetch(node, 1, 10, epoch=99) == (), "what is recorded is epoch 11"
    assert node.on_state({0: 10, 1: 99}, (0, 1), 6, 1) == (HighWatermarkAdvanced(10),)


def test_a_fetch_of_an_earlier_incarnation_is_refused_faults_2_5() -> None:
    node = leader()
    fetch(node, 1, 0, epoch=99)
    with pytest.raises(ApiError) as refused:
        fetch(node, 1, 0, epoch=11)
    assert refused.value.code == ErrorCode.STALE_BROKER_EPOCH


def test_a_state_without_broker_epochs_takes_any() -> None:
    node = leader(0, 1, replicas=(0, 1))
    node.on_state({0: -1, 1: -1}, (0, 1), 6, 1)
    append(node, 10)
    assert fetch(node, 1, 10, epoch=77) == (HighWatermarkAdvanced(10),)


def test_a_member_that_is_no_replica_holds_it_up() -> None:
    node = leader(0, 1, replicas=(0, 2))
    append(node, 10)
    assert fetch(node, 2, 10) == (ProposeIsr(isr(0, 1, 2), 5),)
    assert node.high_watermark == 0


# Into the ISR


def test_a_follower_enters_at_the_high_watermark_faults_1_rule_4() -> None:
    node = leader(0)
    append(node, 10)
    assert fetch(node, 1, 9) == ()
    assert fetch(node, 1, 10) == (ProposeIsr(isr(0, 1), 5),)


def test_a_follower_enters_at_the_start_of_the_epoch_faults_1_rule_4() -> None:
    node = leader(0, log_end=10, epoch_start=10, high_watermark=4, isr_min=2)
    assert fetch(node, 1, 9) == (), "it has the high watermark, but an earlier leader may have had more"
    assert fetch(node, 1, 10) == (ProposeIsr(isr(0, 1), 5),)


def test_one_proposal_at_a_time() -> None:
    node = leader(0)
    assert fetch(node, 1, 0) == (ProposeIsr(isr(0, 1), 5),)
    assert fetch(node, 2, 0) == ()
    written(node, 0, 1)
    assert fetch(node, 2, 0) == (ProposeIsr(isr(0, 1, 2), 6),)


def test_members_are_proposed_as_they_are_recorded_faults_2_6() -> None:
    node = leader(0, 1)
    fetch(node, 1, 0, epoch=99)
    assert fetch(node, 2, 0) == (ProposeIsr(isr(0, 1, 2), 5),), "a restart is not covered up"


def test_an_unknown_follower_is_refused() -> None:
    with pytest.raises(ApiError) as refused:
        fetch(leader(), 9, 0)
    assert refused.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER


# Out of the ISR


def test_a_late_follower_is_removed_and_the_watermark_moves_only_once_the_change_is_written() -> None:
    node = leader()
    append(node, 10)
    fetch(node, 1, 10, now_ms=301)
    assert node.on_tick(now_ms=301) == (ProposeIsr(isr(0, 1), 5),)
    assert node.on_tick(now_ms=302) == (), "one proposal at a time"
    assert node.high_watermark == 0
    assert written(node, 0, 1) == (IsrSettled(), HighWatermarkAdvanced(10))


def test_a_follower_at_the_end_is_never_late() -> None:
    node = leader()
    fetch(node, 1, 0)
    fetch(node, 2, 0)
    assert node.on_tick(now_ms=1_000_000) == ()


def test_a_follower_that_was_never_heard_of_is_late_even_if_nothing_was_written() -> None:
    node = leader(0, 1, replicas=(0, 1))
    assert node.on_tick(LAG_MS) == ()
    assert node.on_tick(LAG_MS + 1) == (ProposeIsr(isr(0), 5),)


def test_a_follower_that_keeps_up_with_a_busy_leader_is_not_late() -> None:
    node = leader(0, 1, replicas=(0, 1))
    for round_ in range(1, 10):
        append(node, 10 * round_)
        fetch(node, 1, 10 * (round_ - 1), now_ms=200 * round_)
        assert node.on_tick(200 * round_) == (), "it has all that there was at its last fetch"


def test_a_follower_that_fetches_but_falls_behind_is_late() -> None:
    node = leader(0, 1, replicas=(0, 1))
    for round_ in range(1, 4):
        append(node, 1000 * round_)
        fetch(node, 1, round_, now_ms=200 * round_)
    assert node.on_tick(600) == (ProposeIsr(isr(0), 5),)


def test_a_restart_does_not_make_a_follower_look_caught_up() -> None:
    node = leader(0, 1, replicas=(0, 1))
    append(node, 10)
    fetch(node, 1, 10, now_ms=100)
    append(node, 20)
    fetch(node, 1, 15, now_ms=350, epoch=99)
    assert node.followers[1].caught_up_ms == 100


# What becomes of proposals (KIP-497)


def test_a_refusal_takes_the_proposal_back_and_the_follower_waits() -> None:
    node = leader(0)
    (proposal,) = fetch(node, 1, 0)
    assert isinstance(proposal, ProposeIsr)
    append(node, 10)
    settled = node.on_refused(proposal, now_ms=50)
    assert settled == (IsrSettled(), HighWatermarkAdvanced(10)), "broker 1 is out for certain"
    assert fetch(node, 1, 10, now_ms=60) == ()
    assert fetch(node, 1, 10, now_ms=50 + REFUSED_MS) == (ProposeIsr(isr(0, 1), 5),)


def test_another_incarnation_is_not_blamed_for_a_refusal() -> None:
    node = leader(0)
    (proposal,) = fetch(node, 1, 0)
    assert isinstance(proposal, ProposeIsr)
    node.on_refused(proposal, now_ms=50)
    assert fetch(node, 1, 0, now_ms=60, epoch=99) == (ProposeIsr(((0, 10), (1, 99)), 5),)


def test_a_late_refusal_of_an_older_proposal_changes_nothing() -> None:
    node = leader(0)
    (old,) = fetch(node, 1, 0)
    assert isinstance(old, ProposeIsr)
    written(node, 0, 1)
    fetch(node, 2, 0)
    assert node.on_refused(old, now_ms=50) == ()
    assert node.pending == dict(isr(0, 1, 2))


def test_a_follower_that_a_newer_state_does_not_admit_is_not_proposed_again_at_once() -> None:
    """A controller that cannot tell the leader why writes the next partition epoch, and nothing else."""
    node = leader(0, 1)
    assert fetch(node, 2, 0) == (ProposeIsr(isr(0, 1, 2), 5),)
    node.on_state(node.isr, node.replicas, 6, now_ms=50)
    assert fetch(node, 2, 0, now_ms=49 + REFUSED_MS) == ()
    assert fetch(node, 2, 0, now_ms=50 + REFUSED_MS) == (ProposeIsr(isr(0, 1, 2), 6),)


def test_a_newer_state_settles_what_was_proposed_on_the_old_one() -> None:
    node = leader(0, 1)
    fetch(node, 2, 0)
    written(node, 0)
    assert node.pending is None
    assert node.isr_maximal == {0: 10}


# Reassignment and DeleteRecords


def test_new_replicas_are_followers_and_those_that_stay_keep_their_place() -> None:
    node = leader(0, 1)
    append(node, 10)
    fetch(node, 1, 10)
    node.on_replicas((0, 1, 3), now_ms=5)
    assert sorted(node.followers) == [1, 3]
    assert node.followers[1].log_end == 10
    assert node.followers[3].caught_up_ms == 5


def test_the_low_watermark_is_that_of_the_isr() -> None:
    node = leader(0, 1)
    append(node, 10)
    node.on_fetch(1, 10, log_start=3, broker_epoch=11, now_ms=1)
    assert node.low_watermark(7) == 3
    node.on_fetch(1, 10, log_start=7, broker_epoch=11, now_ms=2)
    assert node.low_watermark(7) == 7, "broker 2 is not in sync"
