"""What is counted of the topics of a broker is what went in and out of them, to the byte."""

from typing import Any

import pytest
from tests.api.asking import (
    BY_NAME,
    ask_for_two_in_sync,
    batch,
    create,
    fetch,
    fetch_of,
    idempotent,
    lead,
    produce,
    to,
)
from tests.api.groups import broker as with_groups
from tests.api.harness import NOW, Client, Machine
from tests.api.test_throttles import KILOBYTE, client_of, limit
from tests.api.transactions import ID, add, end, init
from tests.api.transactions import started as with_transactions
from tests.support.groups import committing
from tests.support.metrics import metrics_of, traffic_of

from ottla.api.call import CloseConnection
from ottla.base.errors import ErrorCode
from ottla.base.ids import OFFSETS_TOPIC
from ottla.broker.effects import RunJob
from ottla.controller import znodes
from ottla.controller.keeper import Put
from ottla.log.validation import ITEMS_AT_ONCE
from ottla.records.builder import NewRecord, build_batch
from ottla.records.compression import Codec
from ottla.records.control import MARKER_BYTES, build_marker
from ottla.wire.messages.delete_topics import DeleteTopicsRequest

COMPRESSED = batch(*["the same again"] * 100, codec=Codec.ZSTD)


def started(**configs: str) -> tuple[Machine, Client]:
    machine = Machine()
    client = machine.client()
    create(client, "t", 2, **configs)
    return machine, client


def written(*batches: bytes, records: int, requests: int | None = None) -> dict[str, int]:
    return {
        "messagesin": records,
        "bytesin": sum(map(len, batches)),
        "totalproducerequests": len(batches) if requests is None else requests,
    }


# -- what goes in --


@pytest.mark.parametrize("acks", [-1, 1])
def test_records_and_the_bytes_of_their_batches_are_counted_for_the_topic_and_for_all(acks: int) -> None:
    machine, client = started()
    create(client, "u")
    first, second, third = batch("a", "b"), batch("c"), batch("d", "e", "f")
    client.send(to("t", first, second, acks=acks), BY_NAME)
    produce(client, "u", third, acks=acks)
    assert traffic_of(machine.broker, "t") == written(first, second, records=3)
    assert traffic_of(machine.broker, "u") == written(third, records=3)
    assert traffic_of(machine.broker) == written(first, second, third, records=6)


def test_a_compressed_batch_counts_with_its_bytes_on_the_wire_and_all_of_its_records() -> None:
    machine, client = started()
    produce(client, "t", COMPRESSED)
    assert traffic_of(machine.broker, "t") == written(COMPRESSED, records=100)


def test_a_batch_that_the_broker_compresses_anew_counts_with_the_bytes_that_came() -> None:
    machine, client = started(compression_type="lz4")
    plain = batch(*["the same again"] * 100)
    produce(client, "t", plain)
    assert traffic_of(machine.broker, "t") == written(plain, records=100)
    assert metrics_of(machine.broker)['kafka_log_log_size{topic="t",partition="0"}'] < len(plain)


def test_what_is_produced_with_acks_0_counts_like_everything_else() -> None:
    machine, client = started()
    client.ask(to("t", batch("a"), acks=0), BY_NAME)
    assert traffic_of(machine.broker, "t") == written(batch("a"), records=1)
    with pytest.raises(CloseConnection):
        client.ask(to("t", batch("b"), batch("c", codec=Codec.ZSTD)[:-1], acks=0), BY_NAME)
    assert traffic_of(machine.broker, "t") == written(batch("a"), batch("b"), records=2, requests=3)


def test_what_an_idempotent_producer_sends_again_is_a_request_and_no_more_records() -> None:
    machine, client = started()
    sent = idempotent(0, "a", "b")
    assert [produce(client, "t", sent).base_offset for _ in range(3)] == [0, 0, 0]
    assert traffic_of(machine.broker, "t") == written(sent, records=2, requests=3)


def test_a_large_batch_that_a_worker_checks_is_counted_once_when_it_is_written() -> None:
    machine, client = started()
    machine.hold(RunJob)
    records = [NewRecord(b"k", b"v" * (number % 3), (), NOW) for number in range(ITEMS_AT_ONCE + 1000)]
    large = bytes(build_batch(records, codec=Codec.ZSTD))
    client.ask(to("t", large), BY_NAME)
    assert traffic_of(machine.broker, "t") == {}
    machine.release()
    assert traffic_of(machine.broker, "t") == written(large, records=len(records))


def test_the_end_of_a_transaction_is_a_record_and_so_is_what_coordinators_write() -> None:
    machine, client = with_transactions()
    producer = init(client, version=4)
    assert isinstance(producer, tuple), producer
    add(client, producer, 0, 1)
    sent = idempotent(0, "a", "b", producer_id=producer[0], epoch=producer[1], transactional=True)
    request = to("t", sent)
    request.transactional_id = ID
    answer = client.send(request, 11)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
    end(client, producer, version=4)
    ends = b"m" * MARKER_BYTES
    assert traffic_of(machine.broker, "t") == written(sent, ends, ends, records=4)
    assert len(build_marker(2**40, 2**14, False, 2**30, NOW)) == MARKER_BYTES
    states = traffic_of(machine.broker, "__transaction_state")
    log_bytes = [
        value
        for name, value in metrics_of(machine.broker).items()
        if name.startswith('kafka_log_log_size{topic="__transaction_state"')
    ]
    assert states["bytesin"] == sum(log_bytes) > 0
    assert states["messagesin"] == states["totalproducerequests"] == 4, (
        "one by one: begun, added, ended, over"
    )


def test_a_commit_is_a_record_of_the_offsets_topic() -> None:
    machine, client, _ = with_groups()
    for offset in (5, 6):
        client.send(committing(offset), 7)
    assert traffic_of(machine.broker, OFFSETS_TOPIC)["messagesin"] == 2
    assert "messagesin" not in traffic_of(machine.broker, "t")


# -- what is refused --


def spoiled(at: int, value: int, sent: bytes | None = None) -> bytes:
    changed = bytearray(sent or batch("a"))
    changed[at] = value
    return bytes(changed)


REFUSED: list[tuple[str, bytes, dict[str, str], ErrorCode, dict[str, int]]] = [
    ("too large", batch("x" * 2_000), {"max_message_bytes": "1000"}, ErrorCode.MESSAGE_TOO_LARGE,
     {"bytesrejected": len(batch("x" * 2_000))}),
    ("larger than a segment", batch("x" * 20_000), {"segment_bytes": "15000", "max_message_bytes": "30000"},
     ErrorCode.RECORD_LIST_TOO_LARGE, {}),
    ("damaged", spoiled(-1, 0xFF), {}, ErrorCode.CORRUPT_MESSAGE, {"invalidmessagecrcrecords": 1}),
    ("of an old format", spoiled(16, 1), {}, ErrorCode.INVALID_RECORD,
     {"invalidmagicnumberrecords": 1, "failedproducerequests": 1}),
    ("of no format", spoiled(16, 9), {}, ErrorCode.CORRUPT_MESSAGE, {"invalidmagicnumberrecords": 1}),
    ("with a control record", batch("a", control=True), {}, ErrorCode.INVALID_RECORD,
     {"invalidoffsetorsequencerecords": 1, "failedproducerequests": 1}),
    ("without a sequence", batch("a", producer_id=7, producer_epoch=0), {}, ErrorCode.INVALID_RECORD,
     {"invalidoffsetorsequencerecords": 1, "failedproducerequests": 1}),
    ("out of order", idempotent(5, "a"), {}, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
     {"failedproducerequests": 1}),
    ("of the past", batch("a", at=NOW - 5_000), {"message_timestamp_before_max_ms": "1000"},
     ErrorCode.INVALID_TIMESTAMP, {"failedproducerequests": 1}),
    ("without keys", batch("a", "b", "c", key=None), {"cleanup_policy": "compact"},
     ErrorCode.INVALID_RECORD, {"nokeycompactedtopicrecords": 3, "failedproducerequests": 1}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("sent", "configs", "code", "counted"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_a_refused_batch_is_a_request_and_counts_under_its_reason(
    sent: bytes, configs: dict[str, str], code: ErrorCode, counted: dict[str, int]
) -> None:
    machine, client = started(**configs)
    if code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
        produce(client, "t", idempotent(0, "before"))
    before = traffic_of(machine.broker)
    assert produce(client, "t", sent).error_code == code
    after = traffic_of(machine.broker)
    assert {name: after[name] - before.get(name, 0) for name in after if after[name] != before.get(name)} == {
        "totalproducerequests": 1,
        **counted,
    }


def test_more_records_without_a_key_than_an_answer_names_are_all_counted() -> None:
    machine, client = started(cleanup_policy="compact")
    sent = batch(*["v"] * 1_500, key=None)
    assert len(produce(client, "t", sent).record_errors) == 1_000
    assert traffic_of(machine.broker)["nokeycompactedtopicrecords"] == 1_500


def test_too_few_replicas_in_sync_is_a_failure_and_another_leader_is_not() -> None:
    machine, client = started()
    ask_for_two_in_sync(machine, "t")
    assert produce(client, "t").error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert traffic_of(machine.broker, "t") == {"totalproducerequests": 1, "failedproducerequests": 1}
    lead(machine, "t", leader=99, epoch=5, isr=(99,))
    assert produce(client, "t").error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert traffic_of(machine.broker, "t") == {"totalproducerequests": 2, "failedproducerequests": 1}


def test_what_does_not_get_as_far_as_a_partition_is_not_counted() -> None:
    machine, client = started()
    assert produce(client, "nowhere").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert produce(client, "t", acks=5).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert fetch(client, "nowhere").error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert traffic_of(machine.broker) == {}


# -- what goes out --


def read(records: int, requests: int, *batches: bytes) -> dict[str, int]:
    counted = {**written(*batches, records=records), "totalfetchrequests": requests}
    return {name: value for name, value in counted.items() if value}


def test_a_consumer_is_given_whole_batches_and_each_partition_read_is_a_request() -> None:
    machine, client = started()
    client.send(to("t", batch("a", "b"), COMPRESSED), BY_NAME)
    client.send(fetch_of(("t", 0, 1), ("t", 1, 0), ("t", 0, 0)), BY_NAME)
    given = len(batch("a", "b")) + len(COMPRESSED)
    assert traffic_of(machine.broker, "t") == {
        **read(102, 2, batch("a", "b"), COMPRESSED), "bytesout": given
    }  # fmt: skip


def test_a_fetch_without_records_is_a_request_however_long_it_waits() -> None:
    machine, client = started()
    fetch(client, "t")
    assert traffic_of(machine.broker, "t") == {"totalfetchrequests": 1}
    waiting = client.ask(fetch_of(("t", 0, 0), max_wait_ms=500), BY_NAME)
    machine.pass_time(501)
    assert waiting.answer is not None
    assert traffic_of(machine.broker, "t") == {"totalfetchrequests": 2}


def test_a_fetch_that_waits_for_records_counts_once_with_what_it_gets() -> None:
    machine, client = started()
    waiting = client.ask(fetch_of(("t", 0, 0), max_wait_ms=500), BY_NAME)
    produce(machine.client(), "t", batch("a"))
    assert waiting.answer is not None
    assert traffic_of(machine.broker, "t") == {**read(1, 1, batch("a")), "bytesout": len(batch("a"))}


def test_a_reader_of_what_is_committed_counts_with_the_bytes_it_gets() -> None:
    machine, client = started()
    produce(client, "t", batch("a"))
    fetch(client, "t", isolation_level=1)
    assert traffic_of(machine.broker, "t")["bytesout"] == len(batch("a"))


def test_an_incremental_fetch_counts_each_partition_of_its_session_and_gives_the_records_once() -> None:
    machine, client = started()
    client.send(to("t", batch("a"), batch("b")), BY_NAME)
    first = client.send(fetch_of(("t", 0, 0), ("t", 1, 0), session_epoch=0), BY_NAME)
    client.send(fetch_of(("t", 0, 1), ("t", 1, 1), session_id=first.session_id, session_epoch=1), BY_NAME)
    counted = traffic_of(machine.broker, "t")
    assert (counted["totalfetchrequests"], counted["bytesout"]) == (4, 2 * len(batch("a")))


def test_an_offset_out_of_range_is_not_a_failure_and_a_damaged_log_is() -> None:
    machine, client = started()
    size = len(batch("0"))
    for number in range(3):
        produce(client, "t", batch(str(number)))
    assert fetch(client, "t", 9).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert traffic_of(machine.broker, "t") == read(3, 1, *[batch("0")] * 3)
    machine.stop()
    machine.disk.flip("/data/t-0/00000000000000000000.log", size + 16)
    machine.start()
    assert fetch(machine.client(), "t", 1).error_code == ErrorCode.CORRUPT_MESSAGE
    assert traffic_of(machine.broker, "t") == {"totalfetchrequests": 1, "failedfetchrequests": 1}


def test_what_a_quota_keeps_back_was_not_given() -> None:
    machine, client = started()
    produce(client, "t", batch(*[KILOBYTE] * 5))
    limit(machine, {"consumer_byte_rate": 100.0}, user="ANONYMOUS")
    throttled = client_of(machine)
    fetch(throttled, "t", 5)
    assert throttled.send(fetch_of(("t", 0, 0)), BY_NAME).responses == []
    assert "bytesout" not in traffic_of(machine.broker, "t")


# -- topics that come and go --


def delete(client: Client, name: str) -> None:
    answer: Any = client.send(DeleteTopicsRequest(topic_names=[name], timeout_ms=1_000), 5)
    assert answer.responses[0].error_code == ErrorCode.NONE


def test_the_series_of_a_deleted_topic_go_and_the_sum_of_all_topics_does_not_go_back() -> None:
    machine, client = started()
    produce(client, "t", batch("a"))
    fetch(client, "t")
    total = traffic_of(machine.broker)
    delete(client, "t")
    assert not [name for name in metrics_of(machine.broker) if 'topic="t"' in name]
    assert traffic_of(machine.broker) == total
    create(client, "t")
    produce(client, "t", batch("b"))
    assert traffic_of(machine.broker, "t") == written(batch("b"), records=1), "another topic begins at zero"
    assert traffic_of(machine.broker)["messagesin"] == 2


def test_a_topic_of_which_nothing_is_here_counts_in_the_sum_alone() -> None:
    machine, client = started()
    produce(client, "t", batch("a"))
    total = traffic_of(machine.broker)
    machine.give_up_the_seat()
    topic = machine.broker.image.topics["t"]

    machine.write(Put(znodes.topic_path("t"), znodes.topic_node(topic.id, {0: (99,), 1: (99,)})))
    assert produce(client, "t").error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert not [name for name in metrics_of(machine.broker) if 'topic="t"' in name]
    assert traffic_of(machine.broker) == {**total, "totalproducerequests": 2}


@pytest.mark.parametrize("is_clean", [True, False])
def test_counters_begin_at_zero_with_the_broker(is_clean: bool) -> None:
    machine, client = started()
    produce(client, "t", batch("a"))
    machine.restart() if is_clean else machine.crash()
    assert traffic_of(machine.broker) == {}
    produce(machine.client(), "t", batch("b", "c"))
    assert traffic_of(machine.broker, "t") == written(batch("b", "c"), records=2)
