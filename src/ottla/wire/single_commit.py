"""An OffsetCommit of one partition, as most are: read, and answered, without an object for each of its parts.

Rules: as in `single_batch`. A reader gives what the decoder would, or None for a request that has anything
else in it, or is malformed: then the decoder is asked. An answer says that the offset is committed, and is
what the encoder would write.
"""

import struct
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from ottla.base.ids import ZERO_UUID
from ottla.wire.codec import encode
from ottla.wire.header import response_is_flexible, response_start
from ottla.wire.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

OFFSET_COMMIT: Final = 8
FLEXIBLE_SINCE, TOPIC_IDS_SINCE = 8, 10
TEMPLATES_MAX: Final = 1_000

# group, generation or member epoch, member, instance, the topic's name, or its id since v10, the index of the
# partition, offset, leader epoch, metadata
Single: TypeAlias = tuple[str, int, str, str | None, str | bytes, int, int, int, str | None]

_SIZE: Final = struct.Struct(">h").unpack_from
_EPOCH_AND_SIZE: Final = struct.Struct(">ih").unpack_from
_TOPICS_AND_SIZE: Final = struct.Struct(">ih").unpack_from
_PARTITION: Final = struct.Struct(">iiqih").unpack_from
_PARTITION_BEFORE_EPOCHS: Final = struct.Struct(">iiqh").unpack_from
_EPOCH_AND_COMPACT_SIZE: Final = struct.Struct(">iB").unpack_from
_TWO_SIZES: Final = struct.Struct(">BB").unpack_from
_COMPACT_PARTITION: Final = struct.Struct(">BiqiB").unpack_from
_NO_RETENTION: Final = b"\xff" * 8  # of the client's own
_NO_TAGS: Final = bytes(3)  # of the partition, the topic and the request
_MARK: Final = 0x5A5A5A5A
_MARKED: Final = struct.pack(">ih", _MARK, 0)


def _read_plain(body: bytes, version: int) -> Single | None:
    try:
        (size,) = _SIZE(body)
        to = 2 + size
        epoch, member_size = _EPOCH_AND_SIZE(body, to)
        member_at, to = to + 6, to + 6 + member_size
        if size < 0 or member_size < 0:
            return None
        group, member, instance = body[2 : 2 + size].decode(), body[member_at:to].decode(), None
        if version == 7:
            (instance_size,) = _SIZE(body, to)
            to += 2
            if instance_size >= 0:
                instance = body[to : to + instance_size].decode()
                to += instance_size
            elif instance_size != -1:
                return None
        elif version < 5:
            if body[to : to + 8] != _NO_RETENTION:
                return None
            to += 8
        topics, name_size = _TOPICS_AND_SIZE(body, to)
        name_at, to = to + 6, to + 6 + name_size
        if topics != 1 or name_size < 0:
            return None
        name = body[name_at:to].decode()
        if version < 6:
            partitions, index, offset, metadata_size = _PARTITION_BEFORE_EPOCHS(body, to)
            leader_epoch, to = -1, to + 18
        else:
            partitions, index, offset, leader_epoch, metadata_size = _PARTITION(body, to)
            to += 22
        if partitions != 1 or len(body) != (to if metadata_size == -1 else to + metadata_size):
            return None
        metadata = body[to:].decode() if metadata_size >= 0 else None
        return group, epoch, member, instance, name, index, offset, leader_epoch, metadata
    except (struct.error, UnicodeDecodeError):
        return None


def _read_compact(body: bytes, version: int) -> Single | None:
    """Names and metadata of up to 126 bytes: their lengths have one."""
    try:
        size = body[0]
        epoch, member_size = _EPOCH_AND_COMPACT_SIZE(body, size)
        to = size + 4 + member_size
        instance_size = body[to]
        if not 0 < size < 128 or not 0 < member_size < 128 or instance_size > 127:
            return None
        group, member, instance = body[1:size].decode(), body[size + 5 : to].decode(), None
        if instance_size:
            instance = body[to + 1 : to + instance_size].decode()
            to += instance_size - 1
        topics, name_size = _TWO_SIZES(body, to + 1)
        topic: str | bytes
        if version >= TOPIC_IDS_SINCE:
            topic, to = body[to + 2 : to + 18], to + 18
        elif 0 < name_size < 128:
            topic, to = body[to + 3 : to + 2 + name_size].decode(), to + 2 + name_size
        else:
            return None
        partitions, index, offset, leader_epoch, metadata_size = _COMPACT_PARTITION(body, to)
        to += 18
        end = to + metadata_size - 1 if metadata_size else to
        if topics != 2 or partitions != 2 or metadata_size > 127 or body[end:] != _NO_TAGS:
            return None
        metadata = body[to:end].decode() if metadata_size else None
        return group, epoch, member, instance, topic, index, offset, leader_epoch, metadata
    except (struct.error, IndexError, UnicodeDecodeError):
        return None


READERS: Final[dict[int, Callable[[bytes, int], Single | None]]] = {
    **dict.fromkeys(range(2, FLEXIBLE_SINCE), _read_plain),
    **dict.fromkeys(range(FLEXIBLE_SINCE, TOPIC_IDS_SINCE + 1), _read_compact),
}


_templates: dict[tuple[int, str | bytes], tuple[Callable[..., bytes], int, bytes, bytes]] = {}


def answer_to(version: int, correlation_id: int, topic: str | bytes, index: int) -> bytes:
    """The frame of an answer: the offset is committed."""
    pack, size, before, after = _templates.get((version, topic)) or _template(version, topic)
    return pack(size, correlation_id, before, index, after)


def _template(version: int, topic: str | bytes) -> Any:
    """How to pack an answer: the length of its frame, and what stands before and after the partition."""
    name, topic_id = (topic, ZERO_UUID) if isinstance(topic, str) else ("", topic)
    partitions = [OffsetCommitResponsePartition(partition_index=_MARK)]
    topics = [OffsetCommitResponseTopic(name=name, topic_id=topic_id, partitions=partitions)]
    body = encode(OffsetCommitResponse(topics=topics), version)
    frame = response_start(0, len(body), response_is_flexible(OFFSET_COMMIT, version)) + body
    before, _, after = frame[8:].rpartition(_MARKED)
    if len(_templates) >= TEMPLATES_MAX:
        _templates.clear()
    pack = struct.Struct(f">ii{len(before)}si2x{len(after)}s").pack
    template = _templates[version, topic] = pack, len(frame) - 4, before, after
    return template
