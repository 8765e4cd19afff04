"""An OffsetCommit of one partition is read and answered as by the codec, to the byte."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.base.ids import ZERO_UUID
from ottla.wire.codec import decode, encode
from ottla.wire.header import response_is_flexible, response_start
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.wire.primitives import ProtocolError
from ottla.wire.single_commit import (
    FLEXIBLE_SINCE,
    OFFSET_COMMIT,
    READERS,
    TEMPLATES_MAX,
    TOPIC_IDS_SINCE,
    Single,
    _templates,
    answer_to,
)

VERSIONS = st.sampled_from(sorted(READERS))
INT, LONG = (st.integers(-(1 << bits), (1 << bits) - 1) for bits in (31, 63))
NAMES = st.text(max_size=4) | st.sampled_from(["a" * 126, "a" * 127, "é" * 64, "ZZZZ" * 8, "ZZZZ\0\0"])


@st.composite
def requests(draw: st.DrawFn, version: int, count_max: int = 2) -> OffsetCommitRequest:
    """Most have one partition."""
    sizes, by_id = st.sampled_from([1, 1, 1, 0, count_max]), version >= TOPIC_IDS_SINCE
    partitions = st.builds(
        OffsetCommitRequestPartition, partition_index=INT, committed_offset=LONG,
        committed_leader_epoch=INT if version >= 6 else st.just(-1), committed_metadata=st.none() | NAMES,
    )  # fmt: skip
    topics = [
        OffsetCommitRequestTopic(
            name="" if by_id else draw(NAMES),
            topic_id=draw(st.binary(min_size=16, max_size=16)) if by_id else ZERO_UUID,
            partitions=[draw(partitions) for _ in range(draw(sizes))],
        )
        for _ in range(draw(sizes))
    ]
    return OffsetCommitRequest(
        group_id=draw(NAMES),
        generation_id_or_member_epoch=draw(INT),
        member_id=draw(NAMES),
        retention_time_ms=draw(st.sampled_from([-1, -1, 0, 7])) if version < 5 else -1,
        group_instance_id=draw(st.none() | NAMES) if version >= 7 else None,
        topics=topics,
    )


def request_of(single: Single) -> OffsetCommitRequest:
    group, epoch, member, instance, topic, index, offset, leader_epoch, metadata = single
    name, topic_id = (topic, ZERO_UUID) if isinstance(topic, str) else ("", topic)
    partition = OffsetCommitRequestPartition(
        partition_index=index, committed_offset=offset, committed_leader_epoch=leader_epoch,
        committed_metadata=metadata,
    )  # fmt: skip
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=epoch,
        member_id=member,
        group_instance_id=instance,
        topics=[OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=[partition])],
    )


def _is_short(request: OffsetCommitRequest, version: int) -> bool:
    if request.retention_time_ms != -1 or [len(topic.partitions) for topic in request.topics] != [1]:
        return False
    (topic,) = request.topics
    texts: list[Any] = [request.group_id, request.member_id, request.group_instance_id, topic.name]
    texts.append(topic.partitions[0].committed_metadata)
    return version < FLEXIBLE_SINCE or all(len((text or "").encode()) <= 126 for text in texts)


@given(st.data(), VERSIONS)
@settings(max_examples=400)
def test_a_request_of_one_partition_is_read_as_the_decoder_reads_it(
    data: st.DataObject, version: int
) -> None:
    request = data.draw(requests(version))
    body = encode(request, version)
    single = READERS[version](body, version)
    assert (single is not None) == _is_short(request, version)
    if single is not None:
        assert request_of(single) == decode(OffsetCommitRequest, version, memoryview(body)) == request


@given(st.data(), VERSIONS)
@settings(max_examples=800)
def test_of_damaged_bytes_nothing_is_read_that_the_decoder_does_not_read(
    data: st.DataObject, version: int
) -> None:
    whole = bytearray(encode(data.draw(requests(version, count_max=1)), version))
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at] = data.draw(st.sampled_from([0, 1, 2, 3, 127, 128, 254, 255]))
    cut = data.draw(st.integers(0, 5))
    body = bytes(whole + bytes(cut - 3) if cut > 3 else whole[: len(whole) - cut])
    single = READERS[version](body, version)
    if single is not None:
        assert request_of(single) == decode(OffsetCommitRequest, version, memoryview(body))


@given(VERSIONS, st.binary(max_size=60))
@settings(max_examples=300)
def test_of_any_bytes_nothing_is_read_that_the_decoder_does_not_read(version: int, body: bytes) -> None:
    single = READERS[version](body, version)
    if single is not None:
        assert request_of(single) == decode(OffsetCommitRequest, version, memoryview(body))


@given(VERSIONS, INT, NAMES, st.binary(min_size=16, max_size=16), INT)
@settings(max_examples=300)
def test_an_answer_is_what_the_encoder_writes(
    version: int, number: int, name: str, topic_id: bytes, index: int
) -> None:
    by_id = version >= TOPIC_IDS_SINCE
    topic = OffsetCommitResponseTopic(
        name="" if by_id else name,
        topic_id=topic_id if by_id else ZERO_UUID,
        partitions=[OffsetCommitResponsePartition(partition_index=index)],
    )
    body = encode(OffsetCommitResponse(topics=[topic]), version)
    frame = response_start(number, len(body), response_is_flexible(OFFSET_COMMIT, version)) + body
    for _ in range(2):  # the second is made from what is kept
        assert answer_to(version, number, topic_id if by_id else name, index) == frame


def test_what_is_kept_of_topics_has_an_end() -> None:
    for number in range(TEMPLATES_MAX + 1):
        answer_to(9, 0, f"topic {number}", 0)
    assert len(_templates) <= TEMPLATES_MAX


@pytest.mark.parametrize("version", sorted(READERS))
def test_a_request_that_ends_too_early_is_left_to_the_decoder(version: int) -> None:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="m")
    topics = [OffsetCommitRequestTopic(name="t", partitions=[partition])]
    whole = encode(OffsetCommitRequest(group_id="g", member_id="m", topics=topics), version)
    for size in range(len(whole)):
        assert READERS[version](whole[:size], version) is None
        with pytest.raises(ProtocolError):
            decode(OffsetCommitRequest, version, memoryview(whole)[:size])
