"""Logs are made and deleted in portions: others are served in between, and what changes meanwhile counts."""

import errno
import gc
from itertools import count

import pytest
from tests.api.asking import batch, begin_to_create, create, go_on, lead, new_topic, produce, to
from tests.api.harness import OTHER_BROKER, Machine

from ottla.api.writes import MADE_WAIT_MS_MAX
from ottla.base.errors import ErrorCode
from ottla.base.ids import ZERO_UUID
from ottla.broker import log_queue
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.messages.create_topics import CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.metadata import MetadataRequest

PORTION = 3


@pytest.fixture(autouse=True)
def _small_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_queue, "PORTION_MAX", PORTION)
    monkeypatch.setattr(log_queue, "DELETED_MAX", PORTION)


def here(machine: Machine, topic: str = "t") -> list[int]:
    return sorted(id.partition for id in machine.broker.partitions if id.topic == topic)


def delete(machine: Machine, topic: str) -> None:
    machine.client().send(
        DeleteTopicsRequest(topics=[DeleteTopicState(name=topic, topic_id=ZERO_UUID)], timeout_ms=1_000), 6
    )


def test_a_large_topic_is_made_in_portions_and_the_loop_comes_back_for_the_next() -> None:
    machine = Machine()
    begin_to_create(machine.client(), "t", partitions=7)
    assert here(machine) == [0, 1, 2]
    go_on(machine)
    assert here(machine) == [0, 1, 2, 3, 4, 5]
    go_on(machine)
    assert here(machine) == list(range(7))
    assert machine.broker.next_deadline_ms() is None
    assert all(machine.broker.partitions[id].is_leader for id in machine.broker.partitions)


def test_on_a_slow_machine_a_portion_is_over_when_it_has_taken_long_and_never_empty() -> None:
    machine = Machine()
    queue = machine.broker.partitions.log_queue
    queue.elapsed_us = count(0, log_queue.PORTION_US // 2 + 1).__next__
    begin_to_create(machine.client(), "t", partitions=4)
    assert here(machine) == [0, 1]
    queue.elapsed_us = count(0, log_queue.PORTION_US * 10).__next__
    for already in (3, 4):
        go_on(machine)
        assert here(machine) == list(range(already))
    assert machine.broker.next_deadline_ms() is None


def test_who_creates_a_topic_is_answered_when_all_of_its_logs_are_made_and_not_later() -> None:
    machine = Machine()
    first = begin_to_create(machine.client(), "first", partitions=5)
    second = begin_to_create(machine.client(), "second", partitions=8)
    assert (first.answer, second.answer) == (None, None)
    go_on(machine)
    assert len(here(machine, "first")) == 5
    assert first.answer.topics[0].error_code == ErrorCode.NONE
    assert second.answer is None
    while second.answer is None:
        go_on(machine)
    assert len(here(machine, "second")) == 8


def test_who_adds_partitions_is_answered_when_their_logs_are_made() -> None:
    machine = Machine()
    create(machine.client(), "t", partitions=1)
    more = CreatePartitionsTopic(name="t", count=6, assignments=None)
    pending = machine.client().ask(
        CreatePartitionsRequest(topics=[more], timeout_ms=1_000, validate_only=False)
    )
    assert here(machine) == [0, 1, 2, 3]
    assert pending.answer is None
    go_on(machine)
    assert pending.answer.results[0].error_code == ErrorCode.NONE
    assert here(machine) == list(range(6))


def test_who_creates_a_topic_does_not_wait_for_logs_longer_than_was_asked_for() -> None:
    machine = Machine()
    request = CreateTopicsRequest(topics=[new_topic("t", 5)], timeout_ms=100)
    pending = machine.client().ask(request)
    machine.disk.fail("open", errno.EMFILE, "t-3")
    with pytest.raises(OSError, match="Too many open files"):
        machine.broker.on_deadline(machine.now_ms)
    assert pending.answer is None
    machine.pass_time(100)
    assert pending.answer.topics[0].error_code == ErrorCode.NONE
    assert here(machine) == [0, 1, 2]


def test_who_creates_a_topic_does_not_wait_for_logs_so_long_that_clients_give_up() -> None:
    machine = Machine()
    pending = begin_to_create(machine.client(), "t", partitions=5)
    machine.disk.fail("open", errno.EMFILE, "t-3")
    with pytest.raises(OSError, match="Too many open files"):
        machine.broker.on_deadline(machine.now_ms)
    machine.broker.waiting.on_tick(machine.now_ms + MADE_WAIT_MS_MAX - 1)
    machine.carry_out()
    assert pending.answer is None
    machine.broker.waiting.on_tick(machine.now_ms + MADE_WAIT_MS_MAX)
    machine.carry_out()
    assert pending.answer.topics[0].error_code == ErrorCode.NONE


def test_who_asks_for_fewer_partitions_does_not_wait_for_those_that_others_asked_for() -> None:
    machine = Machine()
    begin_to_create(machine.client(), "t", partitions=5)
    fewer = CreatePartitionsTopic(name="t", count=2, assignments=None)
    request = CreatePartitionsRequest(topics=[fewer], timeout_ms=1_000, validate_only=False)
    assert machine.client().send(request).results[0].error_code == ErrorCode.INVALID_PARTITIONS


def test_who_creates_a_topic_that_is_deleted_before_its_logs_are_made_is_answered() -> None:
    machine = Machine()
    pending = begin_to_create(machine.client(), "t", partitions=5)
    delete(machine, "t")
    go_on(machine)
    assert pending.answer.topics[0].error_code == ErrorCode.NONE
    assert here(machine) == []


def test_a_small_topic_need_not_wait_for_a_large_one() -> None:
    machine = Machine()
    client = machine.client()
    begin_to_create(machine.client(), "t", partitions=7)
    create(client, "small")
    assert produce(client, "small").error_code == ErrorCode.NONE
    assert here(machine) == [0, 1, 2]


def test_a_partition_whose_turn_has_not_come_is_known_and_not_led_yet() -> None:
    machine = Machine()
    client = machine.client()
    begin_to_create(machine.client(), "t", partitions=4)
    (topic,) = client.send(MetadataRequest(topics=None)).topics
    assert len(topic.partitions) == 4
    answer = client.send(to("t", batch(), batch(), batch(), batch()), 12)
    codes = [one.error_code for one in answer.responses[0].partition_responses]
    assert codes == [0, 0, 0, ErrorCode.NOT_LEADER_OR_FOLLOWER]
    go_on(machine)
    answer = client.send(to("t", None, None, None, batch()), 12)
    assert answer.responses[0].partition_responses[3].error_code == ErrorCode.NONE


def test_what_is_deleted_while_it_waits_is_never_made() -> None:
    machine = Machine()
    begin_to_create(machine.client(), "t", partitions=4)
    delete(machine, "t")
    go_on(machine)
    assert here(machine) == []
    assert machine.broker.next_deadline_ms() is None
    assert [name for name in machine.disk.list("/data") if name == "t-3"] == []


def test_a_topic_made_again_while_the_first_waits_is_made_as_the_new_one() -> None:
    machine = Machine()
    begin_to_create(machine.client(), "t", partitions=5)
    delete(machine, "t")
    topic_id = create(machine.client(), "t", partitions=4)
    assert not machine.broker.partitions.log_queue.todo
    assert here(machine) == [0, 1, 2, 3]
    assert {one.topic_id for one in machine.broker.partitions.values()} == {topic_id}


def folders(machine: Machine) -> list[str]:
    """Of logs that are in use, as far as the disk is concerned."""
    return sorted(name for name in machine.disk.list("/data") if name.startswith("t-") and name[2:].isdigit())


def large_topic(machine: Machine) -> None:
    begin_to_create(machine.client(), "t", partitions=7)
    while machine.broker.partitions.log_queue.todo:
        go_on(machine)
    assert len(folders(machine)) == 7


def last_offset(machine: Machine) -> int:
    """Of a record that is written to the last partition."""
    answer = machine.client().send(to("t", *[None] * 6, batch()), 12)
    offset: int = answer.responses[0].partition_responses[6].base_offset
    return offset


def test_a_large_topic_is_gone_at_once_and_its_logs_in_portions() -> None:
    machine = Machine()
    large_topic(machine)
    delete(machine, "t")
    assert here(machine) == []
    assert produce(machine.client(), "t").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(folders(machine)) == 4
    go_on(machine)
    assert len(folders(machine)) == 1
    go_on(machine)
    assert folders(machine) == []
    assert machine.broker.next_deadline_ms() is None


def test_a_topic_made_again_before_its_old_logs_are_gone_begins_empty() -> None:
    machine = Machine()
    large_topic(machine)
    assert last_offset(machine) == 0
    delete(machine, "t")
    begin_to_create(machine.client(), "t", partitions=7)
    while machine.broker.next_deadline_ms() is not None:
        go_on(machine)
    assert here(machine) == list(range(7))
    assert last_offset(machine) == 0


def test_logs_that_wait_for_their_end_when_the_broker_stops_do_not_come_back() -> None:
    machine = Machine()
    large_topic(machine)
    delete(machine, "t")
    machine.restart()
    assert here(machine) == []
    assert folders(machine) == []


def test_a_topic_that_is_deleted_leaves_no_garbage_for_the_collector() -> None:
    """That of 10,000 partitions took 72 ms, and what was frozen before would stay for ever."""
    machine = Machine()

    def make_and_delete(topic: str) -> None:
        create(machine.client(), topic, partitions=3)
        assert produce(machine.client(), topic).error_code == ErrorCode.NONE
        delete(machine, topic)
        machine.pass_time(machine.broker.settings.log_config.file_delete_delay_ms + 1)

    make_and_delete("first")
    gc.collect()
    gc.disable()
    try:
        make_and_delete("t")
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_the_state_of_the_hour_counts_when_the_turn_comes() -> None:
    machine = Machine()
    machine.give_up_the_seat()
    begin_to_create(machine.client(), "t", partitions=4)
    lead(machine, "t", leader=OTHER_BROKER, epoch=5)
    go_on(machine)
    assert [(one.leader, one.leader_epoch) for one in machine.broker.partitions.values()] == [
        (OTHER_BROKER, 5)
    ] * 4


def test_a_start_makes_what_an_earlier_life_did_not_get_to() -> None:
    machine = Machine()
    begin_to_create(machine.client(), "t", partitions=7)
    machine.crash()
    assert here(machine) == list(range(7))
    assert machine.broker.partitions.log_queue.todo == {}


def test_for_a_lack_of_descriptors_it_is_tried_again_later_and_nothing_is_forgotten() -> None:
    machine = Machine()
    begin_to_create(machine.client(), "t", partitions=5)
    machine.disk.fail("open", errno.EMFILE, "t-3")
    with pytest.raises(OSError, match="Too many open files"):
        machine.broker.on_deadline(machine.now_ms)
    assert machine.broker.partitions.log_queue.next_ms() == machine.now_ms + log_queue.AGAIN_MS
    machine.broker.on_deadline(machine.now_ms)
    assert here(machine) == [0, 1, 2]
    machine.pass_time(log_queue.AGAIN_MS)
    assert here(machine) == list(range(5))


def test_a_disk_that_fails_meanwhile_costs_what_should_have_been_made_there() -> None:
    machine = Machine({"log.dirs": "/a,/b"})
    begin_to_create(machine.client(), "t", partitions=6)
    machine.disk.break_down("/b", errno.EIO)
    go_on(machine)
    while machine.broker.partitions.log_queue.todo:
        go_on(machine)
    broker = machine.broker
    assert list(broker.store.disks) == ["/a"]
    assert set(here(machine)) >= {0, 2}
    assert set(here(machine)) | {id.partition for id in broker.store.lost} == set(range(6))
