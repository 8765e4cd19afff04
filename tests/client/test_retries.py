"""What a cluster does to its clients: leaders move, brokers hang up, speak old versions, or are none."""

import socket
import threading
from typing import Any

import pytest
from tests.client.fake import FakeBroker, Hangup, in_turn, leads

from ottla.base.errors import ErrorCode
from ottla.client import Client, ClientError, TopicPartition
from ottla.client.cluster import parse_bootstrap
from ottla.records.builder import NewRecord, build_batch
from ottla.wire.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

PLACE = TopicPartition("t", 0)
BATCH = bytes(build_batch([NewRecord(b"k", b"v")] * 5))


def offset(number: int, error: int = 0) -> Any:
    one = ListOffsetsPartitionResponse(partition_index=0, error_code=error, offset=number)
    answer = ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[one])])
    return lambda request, version: answer


def fetched(
    records: bytes = b"", *, error: int = 0, high_watermark: int = 5, aborted: list[Any] | None = None
) -> Any:
    one = PartitionData(
        partition_index=0,
        error_code=error,
        high_watermark=high_watermark,
        last_stable_offset=high_watermark,
        aborted_transactions=aborted or [],
        records=records,
    )
    answer = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[one])])
    return lambda request, version: answer


def appended(base: int, error: int = 0) -> Any:
    one = PartitionProduceResponse(index=0, error_code=error, base_offset=base)
    answer = ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[one])])
    return lambda request, version: answer


def hang_up(request: Any, version: int) -> Any:
    raise Hangup


def alone(broker: FakeBroker) -> None:
    """Make it a cluster of one that leads everything."""
    broker.handlers[MetadataRequest] = leads("t", 0, {0: broker.port})


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    ],
)
def test_an_error_that_passes_is_asked_about_again(code: ErrorCode) -> None:
    with FakeBroker() as broker, Client(broker.bootstrap, timeout_s=30) as client:
        alone(broker)
        broker.handlers[ListOffsetsRequest] = in_turn(offset(-1, code), offset(42))
        assert client.ends([PLACE]) == {PLACE: 42}
        assert broker.asked.count("Metadata") == 2, "nobody asked who leads now"


def test_a_partition_is_followed_to_its_new_leader() -> None:
    with FakeBroker() as old, FakeBroker() as new, Client(old.bootstrap, timeout_s=30) as client:
        ports = {1: old.port, 2: new.port}
        old.handlers[MetadataRequest] = in_turn(leads("t", 1, ports), leads("t", 2, ports))
        new.handlers[MetadataRequest] = leads("t", 2, ports)
        old.handlers[FetchRequest] = fetched(error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        new.handlers[FetchRequest] = fetched(BATCH)
        (chunk,) = client.fetch(PLACE, 0, 5)
        assert bytes(chunk.records) == BATCH


def test_a_broker_that_dies_is_left_for_the_others() -> None:
    with FakeBroker() as other, Client(f"127.0.0.1:1,{other.bootstrap}", timeout_s=30) as client:
        alone(other)
        other.handlers[ListOffsetsRequest] = in_turn(hang_up, hang_up, offset(3))
        assert client.starts([PLACE]) == {PLACE: 3}


def test_what_is_given_up_for_one_partition_does_not_hide_what_was_acknowledged_for_another() -> None:
    nowhere, refusals = TopicPartition("t", 1), dict[TopicPartition, ClientError]()
    with FakeBroker() as broker, Client(broker.bootstrap, timeout_s=30) as client:
        alone(broker)
        broker.handlers[ProduceRequest] = appended(7)
        assert client.produce({PLACE: BATCH, nowhere: BATCH}, refusals=refusals) == {PLACE: 7}
        assert broker.asked.count("Produce") == 1
    assert refusals.keys() == {nowhere}
    assert refusals[nowhere].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_unanswered_batch_is_sent_again_with_the_same_bytes() -> None:
    seen: list[bytes] = []

    def note_and_hang_up(request: Any, version: int) -> Any:
        seen.append(bytes(request.topic_data[0].partition_data[0].records))
        raise Hangup

    def note(request: Any, version: int) -> Any:
        seen.append(bytes(request.topic_data[0].partition_data[0].records))
        return appended(7)(request, version)

    with FakeBroker() as broker, Client(broker.bootstrap, timeout_s=30) as client:
        alone(broker)
        not_enough = appended(-1, ErrorCode.NOT_ENOUGH_REPLICAS)
        broker.handlers[ProduceRequest] = in_turn(note_and_hang_up, not_enough, note)
        assert client.produce({PLACE: BATCH}) == {PLACE: 7}
    assert seen == [BATCH, BATCH]


def test_a_refusal_says_how_often_the_batch_had_been_sent() -> None:
    """After a connection that was lost half way, nobody knows what became of the first time."""

    def hang_up(request: Any, version: int) -> Any:
        raise Hangup

    forgotten = appended(-1, ErrorCode.UNKNOWN_PRODUCER_ID)
    for answers, times in (((forgotten,), 1), ((hang_up, forgotten), 2)):
        refusals = dict[TopicPartition, ClientError]()
        with FakeBroker() as broker, Client(broker.bootstrap, timeout_s=30) as client:
            alone(broker)
            broker.handlers[ProduceRequest] = in_turn(*answers)
            assert client.produce({PLACE: BATCH}, refusals=refusals) == {}
        assert refusals[PLACE].code is ErrorCode.UNKNOWN_PRODUCER_ID
        assert refusals[PLACE].times_sent == times


def test_a_duplicate_is_a_success() -> None:
    with FakeBroker() as broker, Client(broker.bootstrap, timeout_s=30) as client:
        alone(broker)
        broker.handlers[ProduceRequest] = appended(-1, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
        assert client.produce({PLACE: BATCH}) == {PLACE: -1}


def test_an_error_that_does_not_pass_is_told_at_once() -> None:
    with FakeBroker() as broker, Client(broker.bootstrap, timeout_s=30) as client:
        alone(broker)
        broker.handlers[ProduceRequest] = appended(-1, ErrorCode.MESSAGE_TOO_LARGE)
        with pytest.raises(ClientError, match="writing to t-0: MESSAGE_TOO_LARGE") as caught:
            client.produce({PLACE: BATCH})
        assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
        assert broker.asked.count("Produce") == 1


def test_the_time_runs_out_with_the_last_reason() -> None:
    with FakeBroker() as broker, Client(broker.bootstrap, timeout_s=6) as client:
        alone(broker)
        broker.handlers[ListOffsetsRequest] = offset(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        with pytest.raises(ClientError, match=r"t-0: NOT_LEADER_OR_FOLLOWER \(given up after") as caught:
            client.ends([PLACE])
        assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_no_broker_at_all_is_one_sentence() -> None:
    why = r"no broker can be reached: broker 127\.0\.0\.1:1: .*refused"
    with Client("127.0.0.1:1", timeout_s=2) as client, pytest.raises(ClientError, match=why):
        client.topics()


def test_a_broker_that_falls_silent_in_the_end_does_not_hide_what_was_wrong_before() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        silent: list[socket.socket] = []

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            silent.append(server.accept()[0])

        other = threading.Thread(target=serve, daemon=True)
        other.start()
        bootstrap = f"127.0.0.1:{server.getsockname()[1]}"
        with Client(bootstrap, timeout_s=1) as client, pytest.raises(ClientError) as caught:
            client.topics()
        other.join(5)
        assert len(silent) == 1
        silent[0].close()
    assert "1213486160 bytes" in str(caught.value)
    assert "time" not in str(caught.value)


def test_whoever_waits_for_long_is_told_what_for_and_only_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.client.retry.SILENCE_S", 0.0)
    with Client("127.0.0.1:1", timeout_s=3) as client, pytest.raises(ClientError):
        client.topics()
    (said,) = (one.getMessage() for one in caplog.records if one.name == "ottla.client.retry")
    assert "no broker can be reached: broker 127.0.0.1:1: " in said
    assert "; trying again for " in said


def test_holes_at_the_end_of_a_range_end_it() -> None:
    with FakeBroker() as broker, Client(broker.bootstrap, timeout_s=30) as client:
        alone(broker)
        broker.handlers[FetchRequest] = in_turn(fetched(BATCH, high_watermark=20), fetched(high_watermark=20))
        assert len(list(client.fetch(PLACE, 0, 12))) == 1


def test_an_answer_without_the_partition_is_a_quota_and_is_asked_again() -> None:
    with FakeBroker() as broker, Client(broker.bootstrap, timeout_s=30) as client:
        alone(broker)
        held_back = FetchResponse(throttle_time_ms=10)
        broker.handlers[FetchRequest] = in_turn(lambda request, version: held_back, fetched(BATCH))
        assert len(list(client.fetch(PLACE, 0, 5))) == 1


def test_the_last_batch_of_an_answer_may_be_cut_off() -> None:
    second = bytearray(BATCH)
    second[:8] = (5).to_bytes(8, "big")
    with FakeBroker() as broker, Client(broker.bootstrap, timeout_s=30) as client:
        alone(broker)
        cut = fetched(BATCH + bytes(second[:-3]), high_watermark=10)
        broker.handlers[FetchRequest] = in_turn(cut, fetched(bytes(second), high_watermark=10))
        assert [bytes(one.records) for one in client.fetch(PLACE, 0, 10)] == [BATCH, bytes(second)]


def test_aborted_transactions_come_with_the_batches_for_those_who_asked() -> None:
    aborted = [AbortedTransaction(producer_id=9, first_offset=2)]
    with FakeBroker() as broker, Client(broker.bootstrap, timeout_s=30) as client:
        alone(broker)
        broker.handlers[FetchRequest] = fetched(BATCH, aborted=aborted)
        (chunk,) = client.fetch(PLACE, 0, 5, read_committed=True)
        assert chunk.aborted == ((9, 2),)
        (chunk,) = client.fetch(PLACE, 0, 5)
        assert chunk.aborted == ()


@pytest.mark.parametrize(
    ("records", "why"),
    [
        (BATCH[:16] + b"\1" + BATCH[17:], "the old format 1"),
        (BATCH[:16] + b"\7" + BATCH[17:], "no record batch begins where one should"),
        (BATCH[:8] + bytes(4) + BATCH[12:], "no record batch begins where one should"),
        (BATCH[:30], "cut the first batch off after 30 bytes"),
        (b"\xff" * 7 + b"\xf0" + BATCH[8:], "with what ends at"),
    ],
)
def test_what_cannot_be_stepped_over_is_refused(records: bytes, why: str) -> None:
    with FakeBroker() as broker, Client(broker.bootstrap, timeout_s=30) as client:
        alone(broker)
        broker.handlers[FetchRequest] = fetched(records)
        with pytest.raises(ClientError, match=why):
            list(client.fetch(PLACE, 0, 5))


def test_an_old_broker_is_spoken_to_in_its_own_versions() -> None:
    spoken: list[int] = []

    def note(request: Any, version: int) -> Any:
        spoken.append(version)
        return offset(1)(request, version)

    with FakeBroker() as broker, Client(broker.bootstrap, timeout_s=30) as client:
        alone(broker)
        broker.versions[2] = (0, 3)
        broker.handlers[ListOffsetsRequest] = note
        assert client.ends([PLACE]) == {PLACE: 1}
        assert spoken == [3]


def test_a_broker_without_the_version_we_need_is_named() -> None:
    with FakeBroker() as broker, Client(broker.bootstrap, timeout_s=30) as client:
        alone(broker)
        broker.versions[2] = (0, 0)
        with pytest.raises(
            ClientError, match=f"ListOffsets needs version 1 to 11, .*{broker.port} has versions 0 to 0"
        ):
            client.ends([PLACE])
        broker.versions[3] = (0, 3)
    with FakeBroker() as broker, Client(broker.bootstrap, timeout_s=30) as client:
        broker.versions[3] = (0, 3)
        with pytest.raises(ClientError, match="Metadata needs version 4"):
            client.topics()


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\0", b"\xff\xff\xff\xff", b"\0\0\0\2\0\0"]
)
def test_a_server_that_is_no_broker_is_an_error_not_a_crash(answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(1000)
                    connection.sendall(answer)

        other = threading.Thread(target=serve, daemon=True)
        other.start()
        bootstrap = f"127.0.0.1:{server.getsockname()[1]}"
        with (
            Client(bootstrap, timeout_s=2) as client,
            pytest.raises(ClientError, match="no broker can be reached"),
        ):
            client.topics()
        server.shutdown(socket.SHUT_RDWR)
    other.join(5)


def test_bootstrap_servers_are_checked_before_anything_is_asked() -> None:
    assert parse_bootstrap(" a:1 , [::1]:2,PLAINTEXT://c:3") == [("a", 1), ("::1", 2), ("c", 3)]
    for wrong in ("", "a", "a:", ":1", "a:b", "a:0", "a:70000"):
        with pytest.raises(ClientError, match="bootstrap server"):
            Client(wrong)


def test_a_protocol_before_an_address_is_that_of_the_client() -> None:
    with pytest.raises(ClientError, match=r"security\.protocol is PLAINTEXT: set it to SSL, or leave SSL://"):
        Client("SSL://a:1")
    assert parse_bootstrap("SSL://a:1", "SSL") == [("a", 1)]


def test_a_topic_that_is_being_created_is_waited_for() -> None:
    """Apache Kafka answers UNKNOWN_TOPIC_OR_PARTITION while it creates what was asked for."""
    with FakeBroker() as broker:
        unknown = leads("t", 0, {0: broker.port}, error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        broker.handlers[MetadataRequest] = in_turn(unknown, leads("t", 0, {0: broker.port}))
        with Client(broker.bootstrap) as client:
            assert client.partitions(["t"], may_create=True) == {"t": [0]}
