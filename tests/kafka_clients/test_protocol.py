"""The protocol request by request, where client libraries hide what matters: order, sessions, sequences."""

import time
from collections.abc import Callable

import pytest
from tests.kafka_clients.harness import BrokerProcess
from tests.kafka_clients.wire_client import (
    TIMEOUT_S,
    Wire,
    all_requests,
    batch,
    fetch_request,
    frame_of,
    framed,
    produce_request,
)

from ottla.records.batch import split
from ottla.wire.codec import decode
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.produce import ProduceRequest

DUPLICATE_WINDOW = 5
OUT_OF_ORDER_SEQUENCE_NUMBER = 45
DUPLICATE_SEQUENCE_NUMBER = 46
INVALID_PRODUCER_EPOCH = 47
INVALID_FETCH_SESSION_EPOCH = 71
FETCH_SESSION_ID_NOT_FOUND = 70
UNKNOWN_TOPIC_ID = 100
UNSUPPORTED_VERSION = 35
OFFSET_OUT_OF_RANGE = 1


@pytest.fixture
def made(broker: BrokerProcess, topic: str) -> str:
    return broker.create_topic(topic, partitions=3)


def topic_id(wire: Wire, name: str) -> bytes:
    answer = wire.call(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 12)
    found: bytes = answer.topics[0].topic_id
    return found


def producer_id(wire: Wire) -> int:
    answer = wire.call(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 2)
    assert (answer.error_code, answer.producer_epoch) == (0, 0)
    return int(answer.producer_id)


# -- versions ------------------------------------------------------------------------------------------------


def test_every_served_version_of_every_api_is_advertised_and_answered(broker: BrokerProcess) -> None:
    """An empty request of each: whatever the broker thinks of it, the answer can be decoded."""
    empty = {"acks": -1, "timeout_ms": 1000, "max_wait_ms": 0, "min_bytes": 0, "transaction_timeout_ms": 1000}
    classes = {cls.API_KEY: cls for cls in all_requests()}
    with Wire(broker.port) as wire:
        for offered in wire.call(ApiVersionsRequest(), 0).api_keys:
            cls = classes[offered.api_key]
            low = 3 if cls is ProduceRequest else offered.min_version
            assert (low, offered.max_version) == cls.VERSIONS
            for version in range(low, offered.max_version + 1):
                wire.call(_smallest(cls, empty), version)


def _smallest(cls: type, values: dict[str, object]) -> object:
    """An instance with nothing in it that the class does not insist on."""
    from dataclasses import MISSING, fields

    plain = {"str": "", "bool": False, "bytes": b""}
    given = {}
    for one in fields(cls):
        if one.default is MISSING and one.default_factory is MISSING:
            given[one.name] = values.get(one.name, plain.get(str(getattr(one.type, "__name__", one.type)), 0))
    return cls(**given)


def test_an_unknown_version_of_api_versions_is_answered_in_version_0(broker: BrokerProcess) -> None:
    with Wire(broker.port) as wire:
        payload = b"\x00\x12\x00\x63\x00\x00\x00\x07\x00\x02me" + b"\x00\x01\x02"
        wire.send_bytes(framed(payload))
        frame = wire.receive_frame()
        assert bytes(frame[:4]) == b"\x00\x00\x00\x07"
        answer = decode(ApiVersionsResponse, 0, frame, 4)
        assert answer.error_code == UNSUPPORTED_VERSION
        assert {one.api_key: one for one in answer.api_keys}[18].max_version == 4
        assert wire.call(ApiVersionsRequest(client_software_name="a", client_software_version="b"), 3)


def test_produce_is_advertised_from_0_and_closes_the_connection_before_3(broker: BrokerProcess) -> None:
    with Wire(broker.port) as wire:
        answer = wire.call(ApiVersionsRequest(), 0)
        assert {one.api_key: one.min_version for one in answer.api_keys}[0] == 0
    for version in range(3):
        with Wire(broker.port) as wire:
            body = b"\x00\x01" + b"\x00\x00\x03\xe8" + b"\x00\x00\x00\x00"
            wire.send_bytes(framed(bytes([0, 0, 0, version]) + b"\x00\x00\x00\x01\xff\xff" + body))
            assert wire.is_closed_by_peer()


# -- order ---------------------------------------------------------------------------------------------------


def test_pipelined_requests_are_answered_in_their_order(broker: BrokerProcess, made: str) -> None:
    """A fetch that waits in the middle holds back what comes after it, and nothing overtakes."""
    requests = [
        (ApiVersionsRequest(), 0),
        (produce_request(made, bytes(batch(b"one"))), 9),
        (MetadataRequest(topics=[MetadataRequestTopic(name=made)]), 9),
        (fetch_request(made, 1, max_wait_ms=300), 11),
        (produce_request(made, bytes(batch(b"two"))), 3),
        (fetch_request(made, 0, max_wait_ms=300), 12),
    ] * 5
    with Wire(broker.port) as wire:
        sent = b"".join(frame_of(request, version, n) for n, (request, version) in enumerate(requests))
        for at in range(0, len(sent), 97):
            wire.send_bytes(sent[at : at + 97])
        for n, (request, version) in enumerate(requests):
            correlation_id, _ = wire.receive(type(request), version)
            assert correlation_id == n


def test_a_produce_without_acknowledgement_is_not_answered(broker: BrokerProcess, made: str) -> None:
    with Wire(broker.port) as wire:
        wire.send(produce_request(made, bytes(batch(b"quiet")), acks=0), 9)
        assert [one.value for one in wire.fetch(made)] == [b"quiet"]


# -- fetch ---------------------------------------------------------------------------------------------------


def test_an_empty_fetch_lasts_its_wait_and_a_new_record_ends_it(broker: BrokerProcess, made: str) -> None:
    with Wire(broker.port) as wire, Wire(broker.port) as other:
        began = time.monotonic()
        wire.call(fetch_request(made, max_wait_ms=400), 11)
        assert time.monotonic() - began > 0.35
        wire.send(fetch_request(made, max_wait_ms=2 * int(TIMEOUT_S * 1000)), 11)
        other.produce(made, bytes(batch(b"x")))
        _, answer = wire.receive(FetchRequest, 11)  # whose socket would not wait for that long
        assert answer.responses[0].partitions[0].records


def test_a_fetch_waits_until_there_are_as_many_bytes_as_it_wants(broker: BrokerProcess, made: str) -> None:
    with Wire(broker.port) as wire, Wire(broker.port) as other:
        wire.send(fetch_request(made, max_wait_ms=20_000, min_bytes=3000), 11)
        for _ in range(3):
            other.produce(made, bytes(batch(b"x" * 1200)))
        _, answer = wire.receive(FetchRequest, 11)
        (one,) = answer.responses[0].partitions
        assert len(list(split(one.records))) == 3


def test_a_session_answers_only_what_is_new(broker: BrokerProcess, made: str) -> None:
    def first() -> FetchRequest:
        wanted = [FetchPartition(partition=n, fetch_offset=0, partition_max_bytes=1 << 20) for n in range(3)]
        topics = [FetchTopic(topic=made, partitions=wanted)]
        return FetchRequest(max_wait_ms=0, min_bytes=1, session_id=0, session_epoch=0, topics=topics)

    def more(session: int, epoch: int, **changes: object) -> FetchRequest:
        return FetchRequest(max_wait_ms=0, min_bytes=1, session_id=session, session_epoch=epoch, **changes)

    def partitions(answer: FetchResponse) -> list[int]:
        return sorted(one.partition_index for topic in answer.responses for one in topic.partitions)

    with Wire(broker.port) as wire:
        opened = wire.call(first(), 11)
        assert opened.session_id > 0
        assert partitions(opened) == [0, 1, 2]
        session = opened.session_id
        assert partitions(wire.call(more(session, 1), 11)) == []
        wire.produce(made, bytes(batch(b"x")), partition=1)
        changed = wire.call(more(session, 2), 11)
        assert partitions(changed) == [1]
        again = wire.call(more(session, 3), 11)
        assert partitions(again) == [1], "it is sent until its offset moves on"
        moved = FetchPartition(partition=1, fetch_offset=1, partition_max_bytes=1 << 20)
        assert (
            partitions(wire.call(more(session, 4, topics=[FetchTopic(topic=made, partitions=[moved])]), 11))
            == []
        )
        forgotten = [ForgottenTopic(topic=made, partitions=[2])]
        wire.call(more(session, 5, forgotten_topics_data=forgotten), 11)
        wire.produce(made, bytes(batch(b"y")), partition=2)
        assert partitions(wire.call(more(session, 6), 11)) == []
        assert wire.call(more(session, 99), 11).error_code == INVALID_FETCH_SESSION_EPOCH
        assert wire.call(more(session + 1, 1), 11).error_code == FETCH_SESSION_ID_NOT_FOUND
        wire.call(more(session, -1), 11)
        assert wire.call(more(session, 7), 11).error_code == FETCH_SESSION_ID_NOT_FOUND


def test_a_topic_is_fetched_by_its_id_and_an_unknown_id_is_an_error_of_its_own(
    broker: BrokerProcess, made: str
) -> None:
    with Wire(broker.port) as wire:
        wire.produce(made, bytes(batch(b"x")))
        known = topic_id(wire, made)
        for version in range(13, 19):
            answer = wire.call(fetch_request("", topic_id=known), version)
            assert answer.responses[0].topic_id == known
            assert answer.responses[0].partitions[0].records
            answer = wire.call(fetch_request("", topic_id=b"x" * 16), version)
            assert answer.responses[0].partitions[0].error_code == UNKNOWN_TOPIC_ID


def test_an_offset_inside_a_batch_gives_the_whole_batch(broker: BrokerProcess, made: str) -> None:
    with Wire(broker.port) as wire:
        wire.produce(made, bytes(batch(b"a", b"b", b"c")))
        wire.produce(made, bytes(batch(b"d", b"e")))
        assert [one.offset for one in wire.fetch(made, 1)] == [0, 1, 2, 3, 4]
        assert [one.offset for one in wire.fetch(made, 4)] == [3, 4]
        answer = wire.call(fetch_request(made, 6), 11)
        assert answer.responses[0].partitions[0].error_code == OFFSET_OUT_OF_RANGE
        small = wire.call(fetch_request(made, 0, partition_max_bytes=1), 11)
        (one,) = small.responses[0].partitions
        assert len(list(split(one.records))) == 1


# -- sequences -----------------------------------------------------------------------------------------------


def test_duplicates_get_their_old_offset_and_gaps_are_refused(broker: BrokerProcess, made: str) -> None:
    with Wire(broker.port) as wire:
        producer = producer_id(wire)

        def send(sequence: int, epoch: int = 0) -> tuple[int, int]:
            values = batch(b"a", b"b", producer_id=producer, epoch=epoch, sequence=sequence)
            answer = wire.produce(made, bytes(values))
            return answer.error_code, answer.base_offset

        assert [send(n * 2) for n in range(7)] == [(0, n * 2) for n in range(7)]
        assert [send(n * 2) for n in range(7 - DUPLICATE_WINDOW, 7)] == [
            (0, n * 2) for n in range(7 - DUPLICATE_WINDOW, 7)
        ]
        assert send(16)[0] == OUT_OF_ORDER_SEQUENCE_NUMBER
        assert send(13)[0] == OUT_OF_ORDER_SEQUENCE_NUMBER
        assert send(14) == (0, 14)
        assert send(5, epoch=1)[0] == OUT_OF_ORDER_SEQUENCE_NUMBER
        assert send(0, epoch=1) == (0, 16)
        assert send(16)[0] == INVALID_PRODUCER_EPOCH
        assert len(wire.fetch(made)) == 18


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_sequences_are_remembered_over_a_restart(
    start_broker: Callable[..., BrokerProcess], how: str
) -> None:
    broker = start_broker()
    broker.create_topic("t")
    with Wire(broker.port) as wire:
        producer = producer_id(wire)
        sent = [bytes(batch(b"a", b"b", producer_id=producer, epoch=0, sequence=2 * n)) for n in range(6)]
        assert [wire.produce("t", one).base_offset for one in sent] == [0, 2, 4, 6, 8, 10]
    getattr(broker, how)()
    broker.start()
    with Wire(broker.port) as wire:
        again = wire.produce("t", sent[5])
        assert (again.error_code, again.base_offset) == (0, 10)
        for n in range(5):
            # A snapshot holds each producer's last batch only, as Kafka's does; older ones are known as old.
            again = wire.produce("t", sent[n])
            assert (again.error_code, again.base_offset) in {(0, 2 * n), (DUPLICATE_SEQUENCE_NUMBER, -1)}
        gap = batch(b"a", producer_id=producer, epoch=0, sequence=14)
        assert wire.produce("t", bytes(gap)).error_code == OUT_OF_ORDER_SEQUENCE_NUMBER
        following = batch(b"a", producer_id=producer, epoch=0, sequence=12)
        assert wire.produce("t", bytes(following)).base_offset == 12
        assert producer_id(wire) != producer
