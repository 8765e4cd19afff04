"""A Produce with one batch, as nearly all are: read, and answered, without an object for each of its parts.

Rules: a reader gives what the decoder would, or None for a request that has anything else in it, or is
malformed: then the decoder is asked. An answer says that all went well, and is what the encoder would write:
that is asked once for every topic, and the numbers are put where its own stood.
"""

import struct
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from ottla.base.ids import ZERO_UUID
from ottla.wire.codec import encode
from ottla.wire.header import response_is_flexible, response_start
from ottla.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

PRODUCE: Final = 0
FLEXIBLE_SINCE, TOPIC_IDS_SINCE = 9, 13
TEMPLATES_MAX: Final = 1_000

# acks, timeout_ms, the topic's name, or its id since v13, the index of the partition, records
Single: TypeAlias = tuple[int, int, str | bytes, int, memoryview]

_PLAIN_START: Final = struct.Struct(">hhiih").unpack_from
_PLAIN_PARTITION: Final = struct.Struct(">iii").unpack_from
_COMPACT_START: Final = struct.Struct(">BhiBB").unpack_from
_COMPACT_PARTITION: Final = struct.Struct(">BiBBB").unpack_from
_START_WITH_ID: Final = struct.Struct(">BhiB16s").unpack_from
_NO_TAGS: Final = bytes(3)  # of the partition, the topic and the request
_MARKS: Final = (0x5A5A5A5A, *[0x5A5A5A5A5A5A5A5A] * 3)
_MARKED: Final = struct.pack(">i2x3q", *_MARKS)


def _read_plain(view: memoryview, at: int) -> Single | None:
    try:
        transactional, acks, timeout_ms, topics, name_bytes = _PLAIN_START(view, at)
        to = at + 14 + name_bytes
        partitions, index, size = _PLAIN_PARTITION(view, to)
        if transactional != -1 or topics != 1 or partitions != 1 or name_bytes < 0:
            return None
        if size < 0 or to + 12 + size != len(view):
            return None
        return acks, timeout_ms, str(view[at + 14 : to], "utf-8"), index, view[to + 12 :]
    except (struct.error, UnicodeDecodeError):
        return None


def _read_compact(view: memoryview, at: int) -> Single | None:
    try:
        transactional, acks, timeout_ms, topics, name_bytes = _COMPACT_START(view, at)
        at += 9
        to = at + name_bytes - 1
        if transactional or topics != 2 or not 0 < name_bytes < 128:
            return None
        partition = _compact_partition(view, to)
        return partition and (acks, timeout_ms, str(view[at:to], "utf-8"), *partition)
    except (struct.error, UnicodeDecodeError):
        return None


def _read_with_id(view: memoryview, at: int) -> Single | None:
    try:
        transactional, acks, timeout_ms, topics, topic_id = _START_WITH_ID(view, at)
        if transactional or topics != 2:
            return None
        partition = _compact_partition(view, at + 24)
        return partition and (acks, timeout_ms, topic_id, *partition)
    except struct.error:
        return None


def _compact_partition(view: memoryview, at: int) -> tuple[int, memoryview] | None:
    """The only partition of a topic that is the last: its index and records of up to 2 MiB."""
    partitions, index, size, high, higher = _COMPACT_PARTITION(view, at)
    at += 6
    if size > 127:
        size += (high << 7) - 128
        at += 1
        if high > 127:
            if higher > 127:
                return None
            size += (higher << 14) - (128 << 7)
            at += 1
    to = at + size - 1
    if partitions != 2 or not size or view[to:] != _NO_TAGS:
        return None
    return index, view[at:to]


READERS: Final[dict[int, Callable[[memoryview, int], Single | None]]] = {
    **dict.fromkeys(range(5, FLEXIBLE_SINCE), _read_plain),
    **dict.fromkeys(range(FLEXIBLE_SINCE, TOPIC_IDS_SINCE), _read_compact),
    TOPIC_IDS_SINCE: _read_with_id,
}


def request_of(single: Single) -> ProduceRequest:
    """What the decoder makes of it."""
    acks, timeout_ms, topic, index, records = single
    name, topic_id = (topic, ZERO_UUID) if isinstance(topic, str) else ("", topic)
    partition = PartitionProduceData(index=index, records=records)
    return ProduceRequest(
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=[TopicProduceData(name=name, topic_id=topic_id, partition_data=[partition])],
    )


_templates: dict[tuple[int, str | bytes], tuple[Callable[..., bytes], int, bytes, bytes]] = {}


def answer_to(
    version: int,
    correlation_id: int,
    topic: str | bytes,
    index: int,
    base_offset: int,
    time_ms: int,
    start: int,
) -> bytes:
    """The frame of an answer: the batch is in its log at `base_offset`, and all is well."""
    template = _templates.get((version, topic)) or _template(version, topic)
    pack, size, before, after = template
    return pack(size, correlation_id, before, index, base_offset, time_ms, start, after)


def _template(version: int, topic: str | bytes) -> Any:
    """How to pack an answer: the length of its frame, and what stands before and after the numbers."""
    index, base_offset, time_ms, start = _MARKS
    name, topic_id = (topic, ZERO_UUID) if isinstance(topic, str) else ("", topic)
    reply = PartitionProduceResponse(
        index=index, base_offset=base_offset, log_append_time_ms=time_ms, log_start_offset=start
    )
    replies = TopicProduceResponse(name=name, topic_id=topic_id, partition_responses=[reply])
    body = encode(ProduceResponse(responses=[replies]), version)
    frame = response_start(0, len(body), response_is_flexible(PRODUCE, version)) + body
    before, _, after = frame[8:].rpartition(_MARKED)
    if len(_templates) >= TEMPLATES_MAX:
        _templates.clear()
    pack = struct.Struct(f">ii{len(before)}si2x3q{len(after)}s").pack
    template = _templates[version, topic] = pack, len(frame) - 4, before, after
    return template
