"""Produce: append record batches to the logs of partitions."""

import errno

import pytest
from tests.api.asking import (
    BY_NAME,
    ask_for_two_in_sync,
    batch,
    create,
    fetch,
    idempotent,
    lead,
    produce,
    records,
    to,
    values,
)
from tests.api.harness import NOW, Client, Machine

from ottla.api.call import CloseConnection
from ottla.base.errors import ErrorCode
from ottla.broker.effects import Halt, SyncLog
from ottla.controller import znodes
from ottla.controller.keeper import Delete
from ottla.records.builder import NewRecord, build_batch
from ottla.records.compression import Codec
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


def started(**configs: str) -> tuple[Machine, Client]:
    machine = Machine()
    client = machine.client()
    create(client, "t", **configs)
    return machine, client


@pytest.mark.parametrize("acks", [-1, 1])
def test_a_batch_is_answered_with_its_first_offset(acks: int) -> None:
    _, client = started()
    assert produce(client, "t", batch("a", "b"), acks=acks).base_offset == 0
    answer = produce(client, "t", batch("c"), acks=acks)
    assert (answer.error_code, answer.base_offset, answer.log_start_offset) == (ErrorCode.NONE, 2, 0)
    assert answer.log_append_time_ms == -1
    assert values(fetch(client, "t")) == ["a", "b", "c"]


def test_with_acks_0_nothing_is_answered_and_the_records_are_there() -> None:
    _, client = started()
    pending = client.ask(to("t", batch("a"), acks=0), BY_NAME)
    assert pending.wants_no_reply
    assert values(fetch(client, "t")) == ["a"]


def test_with_acks_0_an_error_closes_the_connection_after_the_rest_was_written() -> None:
    _, client = started()
    with pytest.raises(CloseConnection, match="acks=0"):
        client.ask(to("t", batch("a"), batch("no such partition"), acks=0), BY_NAME)
    assert values(fetch(client, "t")) == ["a"]


@pytest.mark.parametrize("acks", [-2, 2, 100])
def test_other_acks_are_an_error_and_write_nothing(acks: int) -> None:
    _, client = started()
    answer = produce(client, "t", acks=acks)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.INVALID_REQUIRED_ACKS, -1)
    assert values(fetch(client, "t")) == []


def test_an_error_is_one_partitions_and_leaves_the_others_alone() -> None:
    machine = Machine()
    client = machine.client()
    create(client, "t", partitions=3)
    corrupt = bytearray(batch("bad"))
    corrupt[-1] ^= 1
    request = to("t", batch("zero"), bytes(corrupt), batch("two"), batch("three"))
    request.topic_data.append(to("nowhere", batch("x")).topic_data[0])
    answer = client.send(request, BY_NAME)
    codes = {(t.name, p.index): p.error_code for t in answer.responses for p in t.partition_responses}
    assert codes == {
        ("t", 0): ErrorCode.NONE,
        ("t", 1): ErrorCode.CORRUPT_MESSAGE,
        ("t", 2): ErrorCode.NONE,
        ("t", 3): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("nowhere", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert "checksum" in answer.responses[0].partition_responses[1].error_message
    assert values(fetch(client, "t", partition=2)) == ["two"]


@pytest.mark.parametrize("nothing", [None, b"", bytes(60)])
def test_a_partition_without_a_batch_is_an_invalid_record(nothing: bytes | None) -> None:
    _, client = started()
    answer = client.send(to("t", nothing), BY_NAME)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_RECORD


def test_a_request_for_nothing_is_answered_with_nothing() -> None:
    _, client = started()
    request = ProduceRequest(acks=1, timeout_ms=1, topic_data=[TopicProduceData(name="t")])
    assert client.send(request, BY_NAME).responses[0].partition_responses == []


def test_from_v13_topics_are_named_by_id() -> None:
    machine = Machine()
    client = machine.client()
    topic_id = create(client, "t")
    good = client.send(to("", batch("a"), topic_id=topic_id), 13).responses[0]
    assert (good.topic_id, good.partition_responses[0].error_code) == (topic_id, ErrorCode.NONE)
    bad = client.send(to("", batch("a"), topic_id=bytes(15) + b"x"), 13).responses[0]
    assert bad.partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert values(fetch(client, "t")) == ["a"]


@pytest.mark.parametrize("version", [3, 9, 10, 12, 13])
def test_who_does_not_lead_says_who_does(version: int) -> None:
    machine = Machine()
    client = machine.client()
    topic_id = create(client, "t")
    lead(machine, "t", leader=2, epoch=5)
    request = to("t", batch(), topic_id=topic_id) if version >= 13 else to("t", batch())
    answer = client.send(request, version).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    if version >= 10:
        assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (2, 5)


def test_with_too_few_replicas_in_sync_only_acks_all_is_refused() -> None:
    machine, client = started()
    ask_for_two_in_sync(machine, "t")
    answer = produce(client, "t", acks=-1)
    assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert produce(client, "t", acks=1).base_offset == 0


def test_a_topic_of_one_replica_takes_acks_all_whatever_min_insync_replicas_asks() -> None:
    _, client = started(min_insync_replicas="2")
    assert produce(client, "t", acks=-1).error_code == ErrorCode.NONE
    assert values(fetch(client, "t")) == ["v"]


def test_a_transactional_batch_without_a_transactional_id_is_refused() -> None:
    _, client = started()
    answer = produce(client, "t", idempotent(0, transactional=True))
    assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert values(fetch(client, "t")) == []


def test_the_brokers_clock_is_used_where_the_topic_asks_for_it() -> None:
    machine, client = started(message_timestamp_type="LogAppendTime")
    machine.pass_time(7)
    answer = produce(client, "t", batch("a", "b", at=5))
    assert answer.log_append_time_ms == NOW + 7
    assert [record.timestamp for record in records(fetch(client, "t"))] == [NOW + 7, NOW + 7]


def test_records_carry_the_time_of_day_and_deadlines_do_not_care_for_it() -> None:
    machine, client = started(message_timestamp_type="LogAppendTime")
    create(client, "slow", flush_messages="1")
    machine.hold(SyncLog)
    pending = client.ask(to("slow", batch("a"), timeout_ms=500), BY_NAME)
    machine.wall_offset_ms = 10_000_000  # somebody has set the system's clock
    machine.pass_time(499)
    assert pending.answer is None
    assert produce(machine.client(), "t").log_append_time_ms == NOW + 499 + 10_000_000
    machine.pass_time(1)
    assert pending.answer is not None


def test_a_timestamp_too_far_ahead_is_refused() -> None:
    _, client = started()
    answer = produce(client, "t", batch(at=NOW + 3_600_001))
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert produce(client, "t", batch(at=NOW + 3_600_000)).error_code == ErrorCode.NONE


def test_a_topic_has_its_own_limit_on_the_size_of_a_batch() -> None:
    _, client = started(max_message_bytes="100")
    assert produce(client, "t", batch("x" * 100)).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert produce(client, "t", batch("x")).error_code == ErrorCode.NONE


def test_a_compacted_topic_wants_keys() -> None:
    _, client = started(cleanup_policy="compact")
    assert produce(client, "t", batch("x", key=None)).error_code == ErrorCode.INVALID_RECORD
    assert produce(client, "t", batch("x")).error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", [7, 8, 12])
def test_the_records_that_are_at_fault_are_named_from_v8_on(version: int) -> None:
    _, client = started(cleanup_policy="compact")
    mixed = [NewRecord(b"k", b"1", (), NOW), NewRecord(None, b"2", (), NOW), NewRecord(None, b"3", (), NOW)]
    answer = produce(client, "t", memoryview(build_batch(mixed)), version=version)
    assert answer.error_code == ErrorCode.INVALID_RECORD
    named = [(error.batch_index, error.batch_index_error_message) for error in answer.record_errors]
    reason = "a compacted topic takes no record without a key"
    assert named == ([(1, reason), (2, reason)] if version >= 8 else [])
    assert (answer.error_message is not None) == (version >= 8)
    assert values(fetch(client, "t")) == []


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec_is_stored_as_it_came_and_zstd_needs_v7(codec: Codec) -> None:
    _, client = started()
    sent = batch("a" * 200, codec=codec)
    code = produce(client, "t", sent, version=6).error_code
    assert code == (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE if codec == Codec.ZSTD else ErrorCode.NONE)
    offset = produce(client, "t", sent, version=7).base_offset
    assert bytes(fetch(client, "t", offset).records)[21:] == sent[21:]


def test_a_batch_that_is_sent_again_is_answered_with_the_offset_it_got_then() -> None:
    _, client = started()
    assert produce(client, "t", idempotent(0, "a", "b")).base_offset == 0
    assert produce(client, "t", idempotent(2, "c")).base_offset == 2
    again = produce(client, "t", idempotent(0, "a", "b"))
    assert (again.error_code, again.base_offset) == (ErrorCode.NONE, 0)
    assert values(fetch(client, "t")) == ["a", "b", "c"]
    assert produce(client, "t", idempotent(5)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(client, "t", idempotent(0, epoch=1)).error_code == ErrorCode.NONE
    assert produce(client, "t", idempotent(3, epoch=0)).error_code == ErrorCode.INVALID_PRODUCER_EPOCH


# Waiting for the disk


@pytest.mark.parametrize("acks", [-1, 1])
def test_with_flush_messages_1_the_answer_waits_for_the_sync(acks: int) -> None:
    machine, client = started(flush_messages="1")
    machine.hold(SyncLog)
    pending = client.ask(to("t", batch("a"), acks=acks), BY_NAME)
    assert pending.answer is None
    reader = machine.client()
    assert values(fetch(reader, "t")) == [], "what is not safe is not shown"
    machine.release()
    assert pending.answer.responses[0].partition_responses[0].base_offset == 0
    assert values(fetch(reader, "t")) == ["a"]


def test_what_came_while_a_sync_was_under_way_waits_for_the_next_one() -> None:
    machine, first = started(flush_messages="1")
    second = machine.client()
    machine.hold(SyncLog)
    earlier = first.ask(to("t", batch("a")), BY_NAME)
    later = second.ask(to("t", batch("b")), BY_NAME)
    assert len(machine.held) == 1
    machine.release(still_hold=True)
    assert (earlier.answer is None, later.answer is None) == (False, True)
    machine.release()
    assert later.answer.responses[0].partition_responses[0].base_offset == 1


def test_a_sync_that_takes_too_long_is_a_timeout_and_the_records_stay() -> None:
    machine, client = started(flush_messages="1")
    machine.hold(SyncLog)
    pending = client.ask(to("t", batch("a"), timeout_ms=500), BY_NAME)
    machine.pass_time(499)
    assert pending.answer is None
    machine.pass_time(1)
    answer = pending.answer.responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, -1)
    machine.release()
    assert values(fetch(machine.client(), "t")) == ["a"]


def test_a_negative_timeout_runs_out_at_the_next_tick() -> None:
    machine, client = started(flush_messages="1")
    machine.hold(SyncLog)
    pending = client.ask(to("t", batch("a"), timeout_ms=-5), BY_NAME)
    machine.pass_time(0)
    assert pending.answer.responses[0].partition_responses[0].error_code == ErrorCode.REQUEST_TIMED_OUT


def test_only_the_partition_that_is_not_safe_times_out() -> None:
    machine = Machine()
    client = machine.client()
    create(client, "slow", flush_messages="1")
    create(client, "fast")
    request = to("slow", batch("a"))
    request.topic_data += to("fast", batch("b")).topic_data
    machine.hold(SyncLog)
    pending = client.ask(request, BY_NAME)
    machine.pass_time(1000)
    codes = [topic.partition_responses[0].error_code for topic in pending.answer.responses]
    assert codes == [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE]


def test_a_duplicate_waits_for_the_same_sync_as_the_original() -> None:
    machine, client = started(flush_messages="1")
    machine.hold(SyncLog)
    first = client.ask(to("t", idempotent(0, "a")), BY_NAME)
    again = machine.client().ask(to("t", idempotent(0, "a")), BY_NAME)
    assert (first.answer, again.answer) == (None, None)
    machine.release()
    offsets = [p.answer.responses[0].partition_responses[0].base_offset for p in (first, again)]
    assert offsets == [0, 0]


def test_a_topic_that_is_deleted_meanwhile_answers_with_an_error() -> None:
    machine, client = started(flush_messages="1")
    machine.hold(SyncLog)
    pending = client.ask(to("t", batch("a")), BY_NAME)
    machine.write(Delete(znodes.topic_path("t")))
    answer = pending.answer.responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    machine.release()  # the sync of the deleted log comes back late, and harms nobody


def test_a_client_that_went_away_gets_nothing() -> None:
    machine, client = started(flush_messages="1")
    machine.hold(SyncLog)
    pending = client.ask(to("t", batch("a")), BY_NAME)
    client.close()
    machine.release()
    assert pending.answer is None
    assert values(fetch(machine.client(), "t")) == ["a"]


def test_a_full_disk_is_a_storage_error_and_the_last_one_stops_the_broker() -> None:
    machine = Machine()
    client = machine.client()
    topic_id = create(client, "t")
    machine.disk.fail("append", errno.ENOSPC)
    machine.hold(Halt)
    answer = client.send(to("", batch("a"), topic_id=topic_id), 13).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    machine.release()
    (reason,) = machine.halted
    assert reason.startswith("the last log directory failed: [Errno 28] No space left on device: '/data/t-0")


def test_a_partition_that_is_named_twice_is_refused_and_the_others_are_not() -> None:
    machine, client = started()
    create(client, "two", 2)
    again = [PartitionProduceData(index=at, records=batch(str(at))) for at in (0, 1, 0, 0)]
    topics = [TopicProduceData(name="two", partition_data=again[:3])]
    topics.append(TopicProduceData(name="two", partition_data=again[3:]))
    answer = client.send(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics), BY_NAME)
    replies = [(reply.index, reply.error_code) for reply in answer.responses[0].partition_responses]
    assert replies == [(0, ErrorCode.INVALID_REQUEST), (1, ErrorCode.NONE)]
    assert answer.responses[1].partition_responses == []
    assert [machine.broker.partitions[("two", at)].log.log_end_offset for at in (0, 1)] == [0, 1]
    with pytest.raises(CloseConnection):
        client.ask(ProduceRequest(acks=0, timeout_ms=1000, topic_data=topics[:1]), BY_NAME)
