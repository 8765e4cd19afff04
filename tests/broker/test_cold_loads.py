"""Coordinators that load what is not in memory: a worker reads it, and others are served meanwhile."""

from tests.api.asking import batch, produce
from tests.api.groups import broker as with_groups
from tests.api.harness import Machine
from tests.broker.test_offline_groups import commit
from tests.support.groups import G

from ottla.base.errors import ErrorCode
from ottla.base.ids import OFFSETS_TOPIC, TopicPartition
from ottla.broker.effects import DoChore
from ottla.wire.messages.offset_fetch import OffsetFetchRequest

ASK = OffsetFetchRequest(group_id=G, topics=None)
LAST = 40


def cold() -> Machine:
    """A broker that has begun to load what a group has committed, of which nothing is in memory."""
    machine, client, _ = with_groups(
        offsets_topic_num_partitions="1", offsets_topic_segment_bytes="1000", log_cleaner_enable="false"
    )
    for offset in range(LAST + 1):
        client.send(commit(offset), 7)
    machine.stop()
    machine.hold(DoChore)
    machine.start()
    machine.disk.drop_caches()
    machine.disk.waits.clear()
    return machine


def rounds(machine: Machine) -> int:
    """The worker does what is asked of it; how often it had to."""
    done = 0
    while machine.broker.coordinators.is_loading:
        assert machine.held, "a load waits for something else"
        machine.release(still_hold=True)
        machine.pass_time(1)
        done += 1
    return done


def test_others_are_served_while_a_coordinator_waits_for_the_disk() -> None:
    machine = cold()
    client = machine.client()
    assert client.send(ASK, 5).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert produce(client, "t", batch("x")).error_code == ErrorCode.NONE
    assert rounds(machine) >= 2
    assert client.send(ASK, 5).topics[0].partitions[0].committed_offset == LAST
    assert [path for path in machine.disk.waits if f"/{OFFSETS_TOPIC}-0/0000" in path] == []


def test_a_coordinator_that_waits_for_nothing_but_the_disk_does_not_keep_the_loop_busy() -> None:
    machine = cold()
    assert machine.broker.coordinators.is_loading
    assert machine.broker.coordinators.next_ms() is None


def test_segments_that_go_while_a_worker_reads_them_are_not_missed() -> None:
    machine = cold()
    partition = machine.broker.partitions[TopicPartition(OFFSETS_TOPIC, 0)]
    assert len(partition.log.segments) > 3
    machine.release(still_hold=True)
    last = partition.log.segments.active.base_offset
    partition.delete_records(last)
    machine.pass_time(120_000)  # its files go, too
    assert partition.log.log_start_offset == last
    rounds(machine)
    assert machine.client().send(ASK, 5).topics[0].partitions[0].committed_offset == LAST
