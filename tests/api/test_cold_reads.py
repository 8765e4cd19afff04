"""Fetch and ListOffsets of what is not in memory: a worker reads it, others are served meanwhile, and the
answer says what is true when it is given."""

import pytest
from tests.api.asking import BY_NAME, batch, create, fetch, fetch_of, lead, parts, produce, values
from tests.api.harness import NOW, Client, Machine
from tests.api.test_list_offsets import asked
from tests.log.simdisk import SimDisk

from ottla.api.partition_reads import DISK_WAIT_MS
from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.broker.effects import DoChore, RunJob
from ottla.log.cold import WarmUp
from ottla.log.log import Log
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)

COUNT = 20
OLD = ("t", 0, 0)
LEADERS_ONLY = 10  # the last version in which nobody else gives records


def log_of(machine: Machine, topic: str = "t") -> Log:
    return machine.broker.partitions[TopicPartition(topic, 0)].log


def cold(*more_topics: str) -> tuple[Machine, Client]:
    """A topic of several segments, after a restart, with an empty page cache."""
    machine = Machine()
    for topic in ("t", *more_topics):
        create(machine.client(), topic, **{"segment.bytes": "400", "index.interval.bytes": "100"})
        for number in range(COUNT):
            produce(machine.client(), topic, batch(f"{topic} {number}", at=NOW + number))
    machine.restart()
    machine.disk.drop_caches()
    machine.disk.waits.clear()
    machine.hold(RunJob)
    return machine, machine.client()


def release_all(machine: Machine) -> None:
    """The worker does all that is asked of it, one job after the other."""
    while machine.held:
        machine.release(still_hold=True)


def test_others_are_served_while_a_worker_reads_what_is_not_in_memory():
    machine, client = cold("other")
    pending = client.ask(fetch_of(OLD), BY_NAME)
    assert pending.answer is None
    other = machine.client()
    produce(other, "other", batch("new"))
    assert values(fetch(other, "other", COUNT)) == ["new"]
    release_all(machine)
    assert values(parts(pending.answer)["t", 0])[:2] == ["t 0", "t 1"]
    assert [path for path in machine.disk.waits if "/t-0/" in path] == []


def test_what_a_sequential_reader_wants_next_is_read_by_a_worker_while_nobody_waits_for_it():
    machine = Machine()
    create(machine.client(), "t", **{"index.interval.bytes": "100"})
    for number in range(200):
        produce(machine.client(), "t", batch(f"t {number}", at=NOW + number))
    machine.restart()
    machine.disk.drop_caches()
    machine.hold(RunJob, DoChore)
    client, offset, chores = machine.client(), 0, 0
    for _ in range(3):
        pending = client.ask(fetch_of(("t", 0, offset), max_bytes=500, partition_max_bytes=500), BY_NAME)
        while pending.answer is None:
            held, machine.held = machine.held, []
            chores += sum(isinstance(effect, DoChore) for effect in held)
            machine.held = [effect for effect in held if isinstance(effect, RunJob)]  # the others never come
            machine.release(still_hold=True)
        read = values(parts(pending.answer)["t", 0])
        assert read[0] == f"t {offset}"
        offset += len(read)
        machine.disk.drop_caches()
    assert chores > 0


def test_all_partitions_of_an_answer_are_brought_in_together():
    machine, client = cold("u", "v")
    pending = client.ask(fetch_of(OLD, ("u", 0, 0), ("v", 0, 0)), BY_NAME)
    rounds = 0
    while machine.held:
        rounds += 1
        machine.release(still_hold=True)
    assert {topic: values(part)[0] for (topic, _), part in parts(pending.answer).items()} == {
        "t": "t 0", "u": "u 0", "v": "v 0",
    }  # fmt: skip
    assert rounds <= 3  # to open them, to find the offset, to read
    assert machine.disk.waits == []


def test_no_more_is_brought_in_than_the_answer_may_hold():
    machine, client = cold("u", "v")
    for _ in range(3):  # until files and indexes are open
        client.ask(fetch_of(OLD, ("u", 0, 0), ("v", 0, 0)), BY_NAME)
        release_all(machine)
    machine.disk.drop_caches()
    client.ask(fetch_of(OLD, ("u", 0, 0), ("v", 0, 0), max_bytes=100, partition_max_bytes=100), BY_NAME)
    (effect,) = machine.held
    assert isinstance(effect, RunJob)
    assert isinstance(effect.job, WarmUp)
    assert [piece.path.split("/")[2] for piece in effect.job.pieces] == ["t-0"]


def test_the_news_of_a_session_is_not_lost_while_its_answer_waits_for_the_disk():
    machine, client = cold("u")
    first = client.ask(fetch_of(("u", 0, COUNT), OLD, session_epoch=0), BY_NAME)
    release_all(machine)
    assert set(parts(first.answer)) == {("t", 0), ("u", 0)}
    machine.disk.drop_caches()
    produce(machine.client(), "u", batch("new"))
    machine.disk.drop_caches()
    second = client.ask(
        fetch_of(OLD, session_id=first.answer.session_id, session_epoch=1, max_wait_ms=1_000), BY_NAME
    )
    release_all(machine)
    answered = parts(second.answer)
    assert values(answered["u", 0]) == ["new"]
    assert values(answered["t", 0])[0] == "t 0"


def test_a_fetch_is_counted_once_however_often_its_answer_is_begun():
    machine, client = cold("u")
    traffic = machine.broker.partitions[TopicPartition("t", 0)].traffic
    refused = client.ask(fetch_of(OLD, ("u", 0, COUNT), ("u", 0, 5)), BY_NAME)
    release_all(machine)
    assert refused.answer is not None
    assert traffic.fetch_requests == 1


def test_who_leads_no_more_when_the_worker_is_done_says_so():
    machine, client = cold()
    pending = client.ask(fetch_of(OLD), LEADERS_ONLY)
    lead(machine, "t", leader=2, epoch=3)
    release_all(machine)
    assert parts(pending.answer)["t", 0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_what_was_deleted_meanwhile_is_out_of_range():
    machine, client = cold()
    pending = client.ask(fetch_of(OLD), BY_NAME)
    topic = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=9)])
    machine.client().send(DeleteRecordsRequest(topics=[topic], timeout_ms=1_000))
    release_all(machine)
    assert parts(pending.answer)["t", 0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_of_what_was_cut_and_written_anew_meanwhile_the_new_is_given():
    machine, client = cold()
    pending = client.ask(fetch_of(("t", 0, 4)), BY_NAME)
    log_of(machine).truncate_to(4, machine.now_ms)
    for number in range(4, COUNT):
        produce(machine.client(), "t", batch(f"other {number}"))
    release_all(machine)
    assert values(parts(pending.answer)["t", 0])[0] == "other 4"


def test_a_topic_that_is_made_anew_meanwhile_is_another():
    machine, client = cold()
    topic_id = machine.broker.image.topics["t"].id
    pending = client.ask(fetch_of((topic_id, 0, 0)))
    machine.broker.partitions[TopicPartition("t", 0)].topic_id = b"another topic id"
    release_all(machine)
    assert pending.answer.responses[0].partitions[0].error_code == ErrorCode.INCONSISTENT_TOPIC_ID


def test_who_hangs_up_is_not_answered_and_nothing_is_read_for_it():
    machine, client = cold()
    client.ask(fetch_of(OLD), BY_NAME)
    machine.broker.on_closed(client.number)
    reads = machine.disk.reads
    release_all(machine)
    assert machine.disk.reads == reads
    assert machine.broker.waiting.parked == 0


def test_a_disk_that_is_too_slow_costs_its_partition_and_no_other():
    machine, client = cold("u")
    produce(machine.client(), "u", batch("new"))
    pending = client.ask(fetch_of(OLD, ("u", 0, COUNT)), BY_NAME)
    machine.pass_time(DISK_WAIT_MS + 1)
    answered = parts(pending.answer)
    assert values(answered["u", 0]) == ["new"]
    assert (answered["t", 0].error_code, answered["t", 0].records) == (ErrorCode.NONE, b"")
    assert answered["t", 0].high_watermark == COUNT


@pytest.mark.parametrize("wait_ms", [0, 500])
def test_a_fetch_that_may_wait_for_records_is_answered_as_soon_as_the_disk_is(wait_ms: int):
    machine, client = cold()
    pending = client.ask(fetch_of(OLD, max_wait_ms=wait_ms, min_bytes=100), BY_NAME)
    release_all(machine)
    assert values(parts(pending.answer)["t", 0])[0] == "t 0"


def test_a_record_is_looked_for_by_its_time_without_waiting_for_the_disk():
    machine, client = cold()
    pending = client.ask(asked(NOW + 7))
    assert pending.answer is None
    release_all(machine)
    (part,) = pending.answer.topics[0].partitions
    assert (part.error_code, part.offset) == (ErrorCode.NONE, 7)
    assert machine.disk.waits == []


def test_the_disk_of_these_tests_tells_who_waited_for_it():
    disk = SimDisk()
    disk.make_directory("/data")
    disk.write_atomic("/data/f", bytes(1_000))
    disk.drop_caches()
    file = disk.open("/data/f")
    assert file.read_now(0, 10) is None
    assert disk.waits == ["/data/f"]
    disk.warm("/data/f", 0, 10)
    assert file.read_now(0, 10) == bytes(10)
    assert file.read_now(0, 1_000) is None
    file.read(0, 1_000)
    assert disk.waits == ["/data/f"] * 2
    file.close()
