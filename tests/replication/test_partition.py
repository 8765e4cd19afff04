"""A partition as its leader serves it."""

import pytest
from tests.log.helpers import FOLDER, NOW, TP, batch
from tests.log.simdisk import SimDisk
from tests.support.partitions import new_partition

from ottla.base.errors import ApiError, ErrorCode
from ottla.log.config import LogConfig
from ottla.log.log import Appended, Log
from ottla.replication.leader import HighWatermarkAdvanced, IsrSettled, ProposeIsr
from ottla.replication.partition import Effects, LeaderChanged, Partition


def partition(**config: int) -> Partition:
    disk = SimDisk()
    disk.make_directory(FOLDER)
    log = Log.open(disk, FOLDER, TP, LogConfig(**config), now_ms=NOW)  # type: ignore[arg-type]
    made = new_partition(log, TP, bytes(16), broker_id=1)
    made.on_state(leader=1, leader_epoch=0, isr=(1,))
    return made


def append(one: Partition, *values: str, acks: int = -1) -> int:
    return appended(one, *values, acks=acks)[0].base_offset


def appended(one: Partition, *values: str, acks: int = -1) -> tuple[Appended, Effects]:
    return one.append(batch(*values), acks=acks, now_ms=NOW, wall_ms=NOW, produce_version=13)


def code(one: Partition, epoch: int = -1) -> ErrorCode:
    with pytest.raises(ApiError) as refused:
        one.check_leader(epoch)
    return refused.value.code


def test_the_watermark_follows_what_is_safe() -> None:
    one = partition()
    assert one.advance() == ()
    assert one.high_watermark == 0
    assert appended(one, "a", "b")[1] == (HighWatermarkAdvanced(2),)
    assert (one.high_watermark, one.advance()) == (2, ())
    assert one.visible_end(read_committed=True) == one.visible_end(read_committed=False) == 2


def test_what_is_not_synced_yet_is_not_acknowledged() -> None:
    one = partition(flush_messages=1)
    assert appended(one, "a")[1] == one.advance() == ()
    assert not one.is_acknowledged(1, acks=1)
    sync = one.log.next_sync(NOW)
    assert sync
    one.log.on_synced(sync, NOW)
    assert one.is_acknowledged(1, acks=1)
    assert not one.is_acknowledged(1, acks=-1), "the watermark has not been asked to follow yet"
    assert one.advance() == (HighWatermarkAdvanced(1),)
    assert one.is_acknowledged(1, acks=-1)


def test_who_does_not_lead_takes_nothing() -> None:
    one = partition()
    one.on_state(leader=2, leader_epoch=1, isr=(2, 1))
    assert not one.is_leader
    assert code(one) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    with pytest.raises(ApiError):
        append(one, "a")
    assert one.log.latest_epoch == 0, "another's epoch is none of ours until its records come"


def test_an_epoch_is_checked_before_who_leads() -> None:
    one = partition()
    one.on_state(leader=2, leader_epoch=3, isr=(2,))
    assert code(one, 2) == ErrorCode.FENCED_LEADER_EPOCH
    assert code(one, 4) == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert code(one, 3) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_new_epoch_begins_at_the_end_also_before_its_first_write() -> None:
    one = partition()
    append(one, "a", "b")
    one.on_state(leader=1, leader_epoch=4, isr=(1,))
    assert one.end_offset_for_epoch(0) == (0, 2)
    assert one.end_offset_for_epoch(4) == (4, 2)
    one.on_state(leader=1, leader_epoch=4, isr=(1, 2))
    assert one.isr == (1, 2)


def test_acks_all_asks_for_enough_replicas() -> None:
    one = partition(min_insync_replicas=2)
    one.on_state(leader=1, leader_epoch=1, isr=(1,), replicas=(1, 2, 3))
    with pytest.raises(ApiError) as refused:
        append(one, "a")
    assert refused.value.code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert append(one, "a", acks=1) == 0


@pytest.mark.parametrize("replicas", [(1,), (1, 2)])
def test_min_insync_replicas_counts_at_most_the_replicas_there_are(replicas: tuple[int, ...]) -> None:
    one = partition(min_insync_replicas=3)
    one.on_state(leader=1, leader_epoch=1, isr=replicas, replicas=replicas)
    assert not one.is_under_min_isr
    assert append(one, "a") == 0
    one.on_state(leader=1, leader_epoch=1, isr=(1,), replicas=(1, 2), partition_epoch=1)
    assert one.is_under_min_isr, "of two replicas, both must be in sync"


def test_only_what_is_committed_can_be_deleted() -> None:
    one = partition(flush_messages=3)
    append(one, "a", "b", "c")
    for offset in (1, -2):
        with pytest.raises(ApiError) as refused:
            one.delete_records(offset)
        assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    one.log.flush()
    one.advance()
    assert one.delete_records(1) == 1
    assert one.delete_records(-1) == 3


def test_a_leader_acts_only_as_the_incarnation_that_is_recorded() -> None:
    one = partition()
    one.on_state(leader=1, leader_epoch=1, isr=(1, 2), isr_epochs=(8, 9), broker_epoch=7)
    assert not one.is_leader
    assert one.log.latest_epoch == 0, "an epoch in which it does not act is not begun"
    one.on_state(leader=1, leader_epoch=1, isr=(1, 2), isr_epochs=(8, 9), broker_epoch=8)
    assert one.is_leader
    assert one.log.latest_epoch == 1
    one.on_state(leader=1, leader_epoch=1, isr=(2,), partition_epoch=1, isr_epochs=(9,), broker_epoch=8)
    assert not one.is_leader, "it is not in sync with itself"


def test_epoch_0_and_none_are_of_keepers_that_do_not_tell_incarnations_apart() -> None:
    one = partition()
    one.on_state(leader=1, leader_epoch=1, isr=(1,), isr_epochs=(0,), broker_epoch=-1)
    assert one.is_leader
    one.on_state(leader=1, leader_epoch=2, isr=(1,), broker_epoch=5)
    assert one.is_leader


def test_an_older_state_changes_nothing() -> None:
    one = partition()
    one.on_state(leader=1, leader_epoch=4, isr=(1, 2), partition_epoch=3)
    assert one.on_state(leader=2, leader_epoch=3, isr=(2,), partition_epoch=9) == ()
    assert one.on_state(leader=1, leader_epoch=4, isr=(1,), partition_epoch=2) == ()
    assert (one.leader, one.leader_epoch, one.isr) == (1, 4, (1, 2))


def test_replicas_are_added_to_a_partition_that_had_one() -> None:
    one = partition()
    append(one, "a")
    one.advance()
    one.on_state(leader=1, leader_epoch=0, isr=(1,), replicas=(1, 2))
    assert one.replication is not None
    assert (one.replication.epoch_start, one.replication.high_watermark) == (0, 1)
    one.on_state(leader=1, leader_epoch=0, isr=(1,), replicas=(1, 2, 3))
    assert sorted(one.replication.followers) == [2, 3]
    assert appended(one, "b")[1] == (HighWatermarkAdvanced(2),), "alone in the ISR"


def proposing() -> Partition:
    """It leads in epoch 1, and has proposed to let broker 2 in."""
    one = partition()
    assert one.on_state(leader=1, leader_epoch=1, isr=(1,), replicas=(1, 2)) == (LeaderChanged(),)
    effects = one.on_follower_fetch(2, 0, log_start=0, broker_epoch=9, now_ms=NOW)
    assert effects == (ProposeIsr(((1, -1), (2, 9)), 0),)
    return one


def test_a_newer_state_settles_what_was_proposed() -> None:
    one = proposing()
    assert one.on_state(leader=1, leader_epoch=1, isr=(1, 2), replicas=(1, 2), partition_epoch=1) == (
        IsrSettled(),
    )


def test_so_does_the_end_of_leading() -> None:
    one = proposing()
    assert one.on_state(leader=2, leader_epoch=2, isr=(2,), replicas=(1, 2), partition_epoch=1) == (
        LeaderChanged(),
        IsrSettled(),
    )


def test_and_the_end_of_the_partition_here() -> None:
    one = proposing()
    assert one.on_removed() == (IsrSettled(),)
    assert (one.is_leader, one.on_removed()) == (False, ())


def test_a_batch_that_was_written_before_has_no_effects() -> None:
    one = partition()
    first = batch("a", producer_id=7, producer_epoch=0, base_sequence=0)
    again = memoryview(bytearray(first))
    how = {"acks": -1, "now_ms": NOW, "wall_ms": NOW, "produce_version": 13}
    assert one.append(first, **how)[1] == (HighWatermarkAdvanced(1),)  # type: ignore[arg-type]
    answer, effects = one.append(again, **how)  # type: ignore[arg-type]
    assert (answer.duplicate, effects) == (True, ())
