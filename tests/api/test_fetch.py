"""Fetch: record batches from many partitions, as soon as there are enough bytes or the time is up."""

import errno

import pytest
from tests.api.asking import (
    BY_NAME,
    batch,
    create,
    fetch,
    fetch_of,
    idempotent,
    lead,
    parts,
    produce,
    records,
    to,
    values,
)
from tests.api.harness import NOW, Client, Machine
from tests.support.endpoints import plaintext

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.controller import znodes
from ottla.controller.keeper import Create, Delete
from ottla.controller.registration import registration
from ottla.log.log import Log
from ottla.log.segment_reader import READ_BYTES_PER_ROUND
from ottla.records.builder import NewRecord, build_batch
from ottla.wire.messages.fetch import FetchRequest, ReplicaState


def started(partitions: int = 1, **configs: str) -> tuple[Machine, Client]:
    machine = Machine()
    client = machine.client()
    create(client, "t", partitions, **configs)
    return machine, client


def put(client: Client, partition: int, *batches: bytes) -> None:
    for one in batches:
        request = to("t", one)
        request.topic_data[0].partition_data[0].index = partition
        client.send(request, BY_NAME)


def log_of(machine: Machine, topic: str = "t", partition: int = 0) -> Log:
    return machine.broker.partitions[TopicPartition(topic, partition)].log


# What is read


def test_whole_batches_come_from_the_one_that_holds_the_offset() -> None:
    _, client = started()
    put(client, 0, batch("a", "b", "c"), batch("d"))
    assert values(fetch(client, "t", 1)) == ["a", "b", "c", "d"]
    assert values(fetch(client, "t", 3)) == ["d"]
    part = fetch(client, "t", 4)
    assert (values(part), part.high_watermark, part.last_stable_offset, part.log_start_offset) == (
        [],
        4,
        4,
        0,
    )


@pytest.mark.parametrize("offset", [-1, 5, 1000])
def test_an_offset_outside_of_the_log_is_an_error(offset: int) -> None:
    _, client = started()
    put(client, 0, batch("a", "b"))
    part = fetch(client, "t", offset, max_wait_ms=1000)
    assert part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (part.high_watermark, part.last_stable_offset, part.log_start_offset) == (-1, -1, -1)


def test_an_empty_log_can_be_fetched_from_its_start() -> None:
    _, client = started()
    part = fetch(client, "t", 0)
    assert (part.error_code, part.high_watermark, bytes(part.records)) == (ErrorCode.NONE, 0, b"")


def test_what_is_not_there_is_an_error_at_once() -> None:
    _, client = started()
    answer = client.send(fetch_of(("t", 7, 0), ("nowhere", 0, 0), max_wait_ms=1000), BY_NAME)
    assert {key: part.error_code for key, part in parts(answer).items()} == {
        ("t", 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("nowhere", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_a_limit_cuts_between_batches_and_never_starves_a_large_one() -> None:
    _, client = started()
    small, large = batch("s"), batch("x" * 1000)
    put(client, 0, small, large, small)
    assert values(fetch(client, "t", 0, partition_max_bytes=len(small) + 5)) == ["s"]
    assert values(fetch(client, "t", 1, partition_max_bytes=1)) == ["x" * 1000]
    assert values(fetch(client, "t", 1, max_bytes=0)) == ["x" * 1000]


def test_the_answers_limit_is_shared_and_only_the_first_partition_may_exceed_it() -> None:
    _, client = started(partitions=3)
    one = batch("x" * 100)
    for partition in range(3):
        put(client, partition, one, one)
    wanted = [("t", partition, 0) for partition in range(3)]
    answer = client.send(fetch_of(*wanted, max_bytes=3 * len(one) + 10), BY_NAME)
    assert [len(values(part)) for part in parts(answer).values()] == [2, 1, 0]
    answer = client.send(fetch_of(*wanted, max_bytes=1), BY_NAME)
    assert [len(values(part)) for part in parts(answer).values()] == [1, 0, 0]


def test_the_brokers_own_limit_holds_whatever_is_asked() -> None:
    machine = Machine({"fetch.max.bytes": "1024"})
    client = machine.client()
    create(client, "t")
    for _ in range(20):
        put(client, 0, batch("x" * 100))
    assert 0 < len(bytes(fetch(client, "t").records)) <= 1024


def test_partitions_of_one_topic_travel_under_one_heading() -> None:
    _, client = started(partitions=3)
    create(client, "u")
    answer = client.send(fetch_of(("t", 0, 0), ("t", 1, 0), ("u", 0, 0), ("t", 2, 0)), BY_NAME)
    assert [(topic.topic, len(topic.partitions)) for topic in answer.responses] == [
        ("t", 2),
        ("u", 1),
        ("t", 1),
    ]


# Waiting


def test_a_fetch_waits_for_enough_bytes() -> None:
    machine, client = started()
    one = batch("x")
    pending = client.ask(fetch_of(("t", 0, 0), max_wait_ms=500, min_bytes=2 * len(one)), BY_NAME)
    writer = machine.client()
    put(writer, 0, one)
    assert pending.answer is None
    put(writer, 0, one)
    assert values(parts(pending.answer)["t", 0]) == ["x", "x"]


def test_time_runs_out_with_what_there_is() -> None:
    machine, client = started()
    pending = client.ask(fetch_of(("t", 0, 0), max_wait_ms=500, min_bytes=1 << 20), BY_NAME)
    put(machine.client(), 0, batch("a"))
    machine.pass_time(499)
    assert pending.answer is None
    machine.pass_time(1)
    assert values(parts(pending.answer)["t", 0]) == ["a"]


def test_an_empty_answer_comes_at_the_deadline() -> None:
    machine, client = started()
    pending = client.ask(fetch_of(("t", 0, 0), max_wait_ms=500), BY_NAME)
    machine.pass_time(500)
    assert values(parts(pending.answer)["t", 0]) == []


@pytest.mark.parametrize(
    "more", [{"max_wait_ms": 0}, {"max_wait_ms": -1}, {"max_wait_ms": 9, "min_bytes": 0}]
)
def test_whoever_does_not_want_to_wait_does_not(more: dict[str, int]) -> None:
    _, client = started()
    assert values(parts(client.send(fetch_of(("t", 0, 0), **more), BY_NAME))["t", 0]) == []


def test_a_fetch_for_nothing_does_not_wait() -> None:
    _, client = started()
    assert client.send(FetchRequest(max_wait_ms=1000, min_bytes=1), BY_NAME).responses == []


def test_it_is_woken_by_exactly_its_partitions() -> None:
    machine, reader = started(partitions=3)
    pending = reader.ask(fetch_of(("t", 0, 0), ("t", 1, 0), max_wait_ms=500), BY_NAME)
    writer = machine.client()
    put(writer, 2, batch("not this"))
    assert pending.answer is None
    put(writer, 1, batch("this"))
    assert {key: values(part) for key, part in parts(pending.answer).items()} == {
        ("t", 0): [],
        ("t", 1): ["this"],
    }


def test_bytes_of_several_partitions_count_together() -> None:
    machine, reader = started(partitions=2)
    one = batch("x")
    asked = fetch_of(("t", 0, 0), ("t", 1, 0), max_wait_ms=500, min_bytes=2 * len(one))
    pending = reader.ask(asked, BY_NAME)
    writer = machine.client()
    put(writer, 0, one)
    assert pending.answer is None
    put(writer, 1, one)
    assert [values(part) for part in parts(pending.answer).values()] == [["x"], ["x"]]


def test_more_is_never_awaited_than_the_answer_may_hold() -> None:
    _, client = started()
    put(client, 0, batch("x" * 100))
    asked = fetch_of(("t", 0, 0), max_wait_ms=500, min_bytes=1000, max_bytes=100)
    assert values(parts(client.send(asked, BY_NAME))["t", 0]) == ["x" * 100]


def test_many_readers_of_one_partition_are_all_woken() -> None:
    machine, writer = started()
    waiting = [machine.client().ask(fetch_of(("t", 0, 0), max_wait_ms=500), BY_NAME) for _ in range(3)]
    put(writer, 0, batch("a"))
    assert [values(parts(pending.answer)["t", 0]) for pending in waiting] == [["a"]] * 3


def test_a_topic_deleted_while_a_fetch_waits_ends_the_wait() -> None:
    machine, client = started(partitions=2)
    pending = client.ask(fetch_of(("t", 0, 0), ("t", 1, 0), max_wait_ms=500), BY_NAME)
    machine.write(Delete(znodes.topic_path("t")))
    assert [part.error_code for part in parts(pending.answer).values()] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    ] * 2


def test_an_error_in_one_partition_answers_all_of_them_at_once() -> None:
    _, client = started()
    answer = client.send(fetch_of(("t", 0, 0), ("t", 9, 0), max_wait_ms=500), BY_NAME)
    assert [part.error_code for part in parts(answer).values()] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


def test_a_client_that_went_away_leaves_nothing_behind() -> None:
    machine, client = started()
    client.ask(fetch_of(("t", 0, 0), max_wait_ms=500), BY_NAME)
    client.close()
    assert list(machine.broker.waiting) == []


def test_a_disk_that_cannot_be_read_is_a_storage_error_and_the_last_one_stops_the_broker() -> None:
    machine, client = started()
    put(client, 0, batch("a"))
    machine.disk.fail("read", errno.EIO)
    assert fetch(client, "t").error_code == ErrorCode.KAFKA_STORAGE_ERROR
    (reason,) = machine.halted
    assert reason.startswith("the last log directory failed: [Errno 5] Input/output error: '/data/t-0/")


def test_old_clients_do_not_know_of_storage_errors() -> None:
    machine, client = started()
    put(client, 0, batch("a"))
    machine.disk.fail("read", errno.EIO)
    (topic,) = client.send(fetch_of(("t", 0, 0)), 5).responses
    assert topic.partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


# Topic ids


def test_from_v13_topics_are_named_by_id() -> None:
    machine = Machine()
    client = machine.client()
    topic_id = create(client, "t")
    put(client, 0, batch("a"))
    answer = client.send(fetch_of((topic_id, 0, 0)))
    assert answer.responses[0].topic_id == topic_id
    assert values(answer.responses[0].partitions[0]) == ["a"]


def test_an_unknown_id_is_an_error_at_once() -> None:
    _, client = started()
    assert fetch(client, b"x" * 16, max_wait_ms=500).error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_the_old_id_of_a_topic_made_again_is_unknown() -> None:
    machine = Machine()
    client = machine.client()
    old = create(client, "t")
    machine.write(Delete(znodes.topic_path("t")))
    new = create(client, "t")
    assert fetch(client, old).error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert fetch(client, new).error_code == ErrorCode.NONE


# Leader epochs


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (-1, ErrorCode.NONE),
        (3, ErrorCode.FENCED_LEADER_EPOCH),
        (4, ErrorCode.NONE),
        (5, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_reader_who_knows_another_epoch_is_told_so(epoch: int, code: ErrorCode) -> None:
    machine, client = started()
    lead(machine, "t", leader=1, epoch=4)
    part = fetch(client, "t", current_leader_epoch=epoch)
    assert part.error_code == code
    if code == ErrorCode.FENCED_LEADER_EPOCH:
        assert (part.current_leader.leader_id, part.current_leader.leader_epoch) == (1, 4)


def test_who_does_not_lead_says_who_does() -> None:
    machine, client = started()
    machine.write(*registration(2, plaintext("other", 9093), "a rack"))
    machine.write(
        Create(znodes.topic_path("far"), znodes.topic_node(b"f" * 16, {0: (2,)})),
        Create(znodes.state_path("far"), znodes.state_node(1, {0: (2, 4, (2,))})),
    )
    answer = client.send(fetch_of((b"f" * 16, 0, 0)), 16)
    (part,) = answer.responses[0].partitions
    assert part.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (part.current_leader.leader_id, part.current_leader.leader_epoch) == (2, 4)
    assert [(one.node_id, one.host, one.port, one.rack) for one in answer.node_endpoints] == [
        (2, "other", 9093, "a rack")
    ]


def test_a_reader_whose_log_parts_from_ours_is_told_where() -> None:
    machine, client = started()
    put(client, 0, batch("a"), batch("b"))
    lead(machine, "t", leader=1, epoch=3)
    put(client, 0, batch("c"))
    for offset in (3, 5):
        apart = fetch(client, "t", offset, last_fetched_epoch=0, max_wait_ms=500)
        assert (apart.diverging_epoch.epoch, apart.diverging_epoch.end_offset) == (0, 2)
        assert bytes(apart.records) == b""
    apart = fetch(client, "t", 2, last_fetched_epoch=2)
    assert (apart.diverging_epoch.epoch, apart.diverging_epoch.end_offset) == (0, 2)
    together = fetch(client, "t", 2, last_fetched_epoch=3)
    assert (together.diverging_epoch, values(together)) == (None, ["c"])
    assert fetch(client, "t", 0, last_fetched_epoch=9).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


# Isolation, replicas


def test_read_committed_ends_at_the_oldest_open_transaction() -> None:
    machine, client = started()
    put(client, 0, batch("a"))
    log_of(machine).append(
        memoryview(
            build_batch(
                [NewRecord(b"k", b"open", (), NOW)],
                producer_id=5,
                producer_epoch=0,
                base_sequence=0,
                transactional=True,
            )
        ),
        leader_epoch=0,
        now_ms=NOW,
    )
    put(client, 0, batch("b"))
    part = fetch(client, "t", isolation_level=1)
    assert (values(part), part.last_stable_offset, part.high_watermark) == (["a"], 1, 3)
    assert part.aborted_transactions == []
    part = fetch(client, "t", isolation_level=0)
    assert (values(part), part.aborted_transactions) == (["a", "open", "b"], None)


@pytest.mark.parametrize("version", [4, 12, 14, 15, 18])
def test_a_replica_is_refused_until_there_are_replicas(version: int) -> None:
    machine = Machine()
    client = machine.client()
    topic_id = create(client, "t")
    request = fetch_of((topic_id if version >= 13 else "t", 0, 0), max_wait_ms=500)
    if version >= 15:
        request.replica_state = ReplicaState(replica_id=2)
    else:
        request.replica_id = 2
    answer = client.as_broker(2).send(request, version)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_idempotent_batches_keep_their_numbers() -> None:
    _, client = started()
    produce(client, "t", idempotent(0, "a"))
    (record,) = records(fetch(client, "t"))
    assert (record.offset, record.timestamp) == (0, NOW)


def test_a_partition_named_more_than_once_is_read_once_as_named_last() -> None:
    machine, client = started()
    put(client, 0, batch("a"), batch("b"))
    answer = client.send(fetch_of(*[("t", 0, 0)] * 50, ("t", 0, 1)), BY_NAME)
    assert [[values(part) for part in topic.partitions] for topic in answer.responses] == [[["b"]]]
    pending = client.ask(fetch_of(*[("t", 0, 2)] * 50, max_wait_ms=500, min_bytes=1), BY_NAME)
    assert pending.answer is None
    put(machine.client(), 0, batch("c"))
    assert [values(part) for part in parts(pending.answer).values()] == [["c"]]


def test_when_many_ask_for_much_at_once_the_later_ones_get_less() -> None:
    machine = Machine()
    client = machine.client()
    create(client, "t", max_message_bytes=str(30 << 20))
    batches = [batch("x" * 40_000) for _ in range(20)]
    for sent in (batch("x" * READ_BYTES_PER_ROUND), *batches):
        produce(client, "t", sent)
    machine.is_one_round = True
    answers = [fetch(machine.client(), "t", offset) for offset in (0, 1, 1)]
    assert len(answers[0].records) > READ_BYTES_PER_ROUND
    assert [len(answer.records) for answer in answers[1:]] == [len(batches[0])] * 2
    machine.begin_round()
    assert len(fetch(machine.client(), "t", 1).records) == 20 * len(batches[0])


def test_a_fetch_that_waits_changes_what_is_due_only_if_its_time_is_up_first() -> None:
    machine, client = started()
    outbox, waits = machine.broker.outbox, []
    for max_wait_ms in (500, 700, 300):
        outbox.is_stirred = False
        waits.append(machine.client().ask(fetch_of(("t", 0, 0), max_wait_ms=max_wait_ms), BY_NAME))
        assert outbox.is_stirred is (max_wait_ms != 700)
    outbox.is_stirred = False
    produce(client, "t", batch())
    assert not outbox.is_stirred  # those who waited are answered, and nothing is due earlier
    assert all(parts(wait.answer)["t", 0].records for wait in waits)
