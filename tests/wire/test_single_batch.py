"""A Produce with one batch is read and answered as by the codec, to the byte."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.base.ids import ZERO_UUID
from ottla.wire.codec import decode, encode
from ottla.wire.header import response_is_flexible, response_start
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from ottla.wire.primitives import ProtocolError
from ottla.wire.single_batch import (
    PRODUCE,
    READERS,
    TEMPLATES_MAX,
    TOPIC_IDS_SINCE,
    _templates,
    answer_to,
    request_of,
)

VERSIONS = st.sampled_from(sorted(READERS))
SHORT, INT, LONG = (st.integers(-(1 << bits), (1 << bits) - 1) for bits in (15, 31, 63))
NAMES = st.text(max_size=4) | st.sampled_from(["a" * 126, "a" * 127, "é" * 64, "ZZZZ" * 8])
RECORDS = st.binary(max_size=4) | st.sampled_from([0, 61, 126, 127, 16_382, 16_383, 1 << 21]).map(bytes)
PARTITIONS = st.builds(PartitionProduceData, index=INT, records=st.none() | RECORDS)


@st.composite
def requests(draw: st.DrawFn, version: int, count_max: int = 2) -> ProduceRequest:
    """Most have one batch."""
    sizes = st.sampled_from([1, 1, 1, 0, count_max])
    by_id = version >= TOPIC_IDS_SINCE
    topics = [
        TopicProduceData(
            name="" if by_id else draw(NAMES),
            topic_id=draw(st.binary(min_size=16, max_size=16)) if by_id else ZERO_UUID,
            partition_data=[draw(PARTITIONS) for _ in range(draw(sizes))],
        )
        for _ in range(draw(sizes))
    ]
    transactional_id = draw(st.sampled_from([None, None, None, "", "an id"]))
    return ProduceRequest(
        transactional_id=transactional_id, acks=draw(SHORT), timeout_ms=draw(INT), topic_data=topics
    )


@given(st.data(), VERSIONS, st.binary(max_size=3))
@settings(max_examples=300)
def test_a_request_is_read_as_the_decoder_reads_it_or_not_at_all(
    data: st.DataObject, version: int, before: bytes
) -> None:
    request = data.draw(requests(version))
    view = memoryview(before + encode(request, version))
    single = READERS[version](view, len(before))
    if single is not None:
        assert request_of(single) == decode(ProduceRequest, version, view, len(before)) == request
    elif len(request.topic_data) == 1 and request.transactional_id is None:
        (topic,) = request.topic_data
        sizes = [len(partition.records or b"") for partition in topic.partition_data]
        is_null = any(partition.records is None for partition in topic.partition_data)
        assert is_null or len(sizes) != 1 or len(topic.name.encode()) > 126 or sizes[0] >= (1 << 21) - 1


@given(st.data(), VERSIONS)
@settings(max_examples=500)
def test_of_damaged_bytes_nothing_is_read_that_the_decoder_does_not_read(
    data: st.DataObject, version: int
) -> None:
    whole = bytearray(encode(data.draw(requests(version, count_max=1)), version))
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, min(len(whole), 200) - 1))
        whole[at] = data.draw(st.sampled_from([0, 1, 2, 127, 128, 255]))
    cut = data.draw(st.integers(0, 5))
    view = memoryview(whole + bytes(cut - 3) if cut > 3 else whole[: len(whole) - cut])
    single = READERS[version](view, 0)
    if single is not None:
        assert request_of(single) == decode(ProduceRequest, version, view)


@given(VERSIONS, INT, NAMES, st.binary(min_size=16, max_size=16), INT, LONG, LONG, LONG)
@settings(max_examples=300)
def test_an_answer_is_what_the_encoder_writes(
    version: int, number: int, name: str, topic_id: bytes, index: int, base: int, time_ms: int, start: int
) -> None:
    by_id = version >= TOPIC_IDS_SINCE
    reply = PartitionProduceResponse(
        index=index, base_offset=base, log_append_time_ms=time_ms, log_start_offset=start
    )
    topic = TopicProduceResponse(
        name="" if by_id else name, topic_id=topic_id if by_id else ZERO_UUID, partition_responses=[reply]
    )
    body = encode(ProduceResponse(responses=[topic]), version)
    frame = response_start(number, len(body), response_is_flexible(PRODUCE, version)) + body
    for _ in range(2):  # the second is made from what is kept
        assert answer_to(version, number, topic_id if by_id else name, index, base, time_ms, start) == frame


def test_what_is_kept_of_topics_has_an_end() -> None:
    for number in range(TEMPLATES_MAX + 1):
        answer_to(9, 0, f"topic {number}", 0, 0, -1, 0)
    assert len(_templates) <= TEMPLATES_MAX


@pytest.mark.parametrize("version", sorted(READERS))
def test_a_request_that_ends_too_early_is_left_to_the_decoder(version: int) -> None:
    data = [TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=b"records")])]
    whole = encode(ProduceRequest(acks=-1, timeout_ms=1, topic_data=data), version)
    for size in range(len(whole)):
        view = memoryview(whole[:size])
        assert READERS[version](view, 0) is None
        with pytest.raises(ProtocolError):
            decode(ProduceRequest, version, view)
